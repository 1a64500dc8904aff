#!/bin/sh
# Prints the receipt of a shopping list.
here=$(dirname "$0")
. "$here/lib/money.sh"
. "$here/lib/discount.sh"

sum=0
while read -r name cents; do
    [ -n "$name" ] || continue
    sum=$((sum + cents))
    printf '%-10s %7s\n' "$name" "$(money "$cents")"
done < "$1"
off=$(discount "$sum")
printf '%-10s %7s\n' sum "$(money "$sum")" off "$(money "$off")" total "$(money $((sum - off)))"
