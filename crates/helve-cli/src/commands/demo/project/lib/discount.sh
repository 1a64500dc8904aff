# How much is taken off a sum, both in cents.
discount() {
    if [ "$1" -gt 5000 ]; then
        echo $(($1 / 10))
    else
        echo 0
    fi
}
