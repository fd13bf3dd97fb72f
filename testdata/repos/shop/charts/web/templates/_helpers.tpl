{{- define "web.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ include "common.fullname" . }}
{{- else -}}
default
{{- end -}}
{{- end -}}

{{/*
The exporter's container.
*/}}
{{- define "web.exporter" -}}
- name: exporter
  image: {{ include "common.image" .image }}
  args:
  - --listen=:{{ .port }}
  ports:
  - name: metrics
    containerPort: {{ .port }}
  {{- with .securityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  resources:
    {{- toYaml .resources | nindent 4 }}
{{- end -}}
