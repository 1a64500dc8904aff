#!/bin/sh
# Runs every test, says how each went, and fails if one did.
cd "$(dirname "$0")/.." || exit 1
. lib/money.sh
. lib/discount.sh
failed=0

is() {
    if [ "$2" = "$3" ]; then
        echo "ok      $1"
    else
        echo "FAILED  $1: expected $3, got $2"
        failed=$((failed + 1))
    fi
}

is "money has two decimals" "$(money 1205)" 12.05
is "nothing is taken off a short list" "$(discount 1200)" 0
is "ten per cent are taken off a long one" "$(discount 9000)" 900
is "the discount begins at 50.00" "$(discount 5000)" 500
echo "$failed failed"
[ "$failed" -eq 0 ]
