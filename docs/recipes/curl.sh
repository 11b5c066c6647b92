#!/bin/sh
# curl behind Outflow: only the base URL changes.
set -eu
outflow=${OUTFLOW_URL:-http://127.0.0.1:7070}

# An ordinary call: it waits for its permit.
curl -sS -o /dev/null -w '%{http_code} after %{time_total} s\n' "$outflow/demo/films/603"

# Twenty at once, to an API that allows ten a second and throttles the rest: all get 200.
seq 20 | xargs -P 20 -I N curl -sS -o /dev/null -w '%{http_code}\n' "$outflow/demo/films/N" |
    sort | uniq -c | awk '{ print $1 " answered with " $2 }'

# Options of this one call. Only the Idempotency-Key reaches the API; with it a POST may be retried.
curl -sS -o /dev/null -w 'steered: %{http_code}\n' "$outflow/demo/orders" \
    -H 'Outflow-Cost: 5' -H 'Outflow-Priority: high' -H 'Outflow-Deadline: 10s' -H 'Outflow-Group: bulk' \
    -H 'Idempotency-Key: order-7' -H 'Content-Type: application/json' -d '{"film": 603}'

# Instead of waiting: a call that cannot go now is refused at once, and nothing is sent. A refusal of Outflow is
# a 429 with Proxy-Status, a Retry-After in seconds and a body with the reason. Leave out --retry: Outflow retries
# where that is safe.
curl -sS -i "$outflow/demo/films/603" -H 'Outflow-Mode: reject' -H 'Outflow-Cost: 10'
echo
