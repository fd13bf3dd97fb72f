// Without a file like this, the compiler takes functions without a body for mistakes.
