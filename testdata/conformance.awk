# Reads conformance.tsv (table, right), then what the tests and the score script
# print, and says of each table how much is right, with the differences. Exits 1
# where a table is missing or less is right than is recorded, or a test fails.
function line(table, right, total) {
	print table ": " right " / " total
	seen[table] = 1
	if (table in recorded && right + 0 < recorded[table]) worse(table ": " right ", recorded is " recorded[table])
}
function worse(what) { bad[++n] = what }
FNR == NR { split($0, f, "\t"); if (f[1] != "" && f[1] !~ /^#/) { recorded[f[1]] = f[2] + 0; reason[f[1]] = f[3] }; next }
match($0, /table [^:]*: [0-9]+ \/ [0-9]+/) {
	split(substr($0, RSTART + 6, RLENGTH - 6), f, ": "); split(f[2], g, " / ")
	line(f[1], g[1], g[2])
	if (g[1] + 0 < g[2] + 0 && reason[f[1]] != "") print "  because " reason[f[1]]
	next
}
/difference: / { sub(/^.*difference: /, "  "); print; next }
/: want .*, got / { print "  " $0; next }
$4 == "/" && $6 ~ /%$/ {
	table = $1 " " $2; line(table, $3, $5)
	if ($3 + 0 < $5 + 0 && reason[table] != "") print "  because " reason[table]
	next
}
/^--- FAIL|^FAIL|^panic:/ { worse($0) }
END {
	for (t in recorded) if (!(t in seen)) worse(t ": not checked")
	for (i = 1; i <= n; i++) print "worse: " bad[i]
	exit n > 0
}
