#!/bin/sh
# curl behind Outflow: only the address is another.
set -eu
outflow=${OUTFLOW_URL:-http://127.0.0.1:7070}

# A call like any other: it waits for its turn, and is answered.
curl -sS -o /dev/null -w '%{http_code} after %{time_total} s\n' "$outflow/demo/films/603"

# Twenty at once, to an API that allows ten a second and refuses the rest: all of them are answered.
seq 20 | xargs -P 20 -I N curl -sS -o /dev/null -w '%{http_code}\n' "$outflow/demo/films/N" |
    sort | uniq -c | awk '{ print $1 " answered with " $2 }'

# What this one call is to be. Nothing of it reaches the API but the Idempotency-Key, with which a POST
# may be retried as well.
curl -sS -o /dev/null -w 'steered: %{http_code}\n' "$outflow/demo/orders" \
    -H 'Outflow-Cost: 5' -H 'Outflow-Priority: high' -H 'Outflow-Deadline: 10s' -H 'Outflow-Group: bulk' \
    -H 'Idempotency-Key: order-7' -H 'Content-Type: application/json' -d '{"film": 603}'

# Without patience: what cannot go now is refused at once, and nothing is sent. A refusal of Outflow is a
# 429 with Proxy-Status, a Retry-After in seconds and a body that says why. Leave out --retry: Outflow has
# repeated already what may be repeated.
curl -sS -i "$outflow/demo/films/603" -H 'Outflow-Mode: reject' -H 'Outflow-Cost: 10'
echo
