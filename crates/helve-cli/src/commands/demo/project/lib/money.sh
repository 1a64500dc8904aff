# Cents as people write money.
money() {
    printf '%d.%02d\n' $(($1 / 100)) $(($1 % 100))
}
