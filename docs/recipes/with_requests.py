"""requests behind Outflow: only the base URL changes.

pip install requests
"""

import os
from concurrent.futures import ThreadPoolExecutor

import requests

OUTFLOW = os.environ.get("OUTFLOW_URL", "http://127.0.0.1:7070")

# No retries here, which is the default: Outflow retries where that is safe.
session = requests.Session()
# requests has no default timeout; a call may wait for its permit.
PATIENCE = 60


def film(number):
    return session.get(f"{OUTFLOW}/demo/films/{number}", timeout=PATIENCE)


# An ordinary call. It waits for its permit, and the response reports how long.
answer = film(603)
answer.raise_for_status()
print(answer.status_code, "after", answer.headers["Outflow-Wait"], "s in the queue")

# Twenty at once, to an API that allows ten a second and throttles the rest: all get 200.
with ThreadPoolExecutor(20) as threads:
    answers = list(threads.map(film, range(20)))
print(sum(answer.ok for answer in answers), "answered with 200")

# Options of this one call. Only the Idempotency-Key reaches the API; with it a POST may be retried.
answer = session.post(
    f"{OUTFLOW}/demo/orders",
    json={"film": 603},
    headers={
        "Outflow-Cost": "5",
        "Outflow-Priority": "high",
        "Outflow-Deadline": "10s",
        "Outflow-Group": "bulk",
        "Idempotency-Key": "order-7",
    },
    timeout=PATIENCE,
)
print("steered:", answer.status_code)

# Instead of waiting: a call that cannot go now is refused at once, and nothing is sent. Proxy-Status marks a
# refusal of Outflow.
answer = session.get(
    f"{OUTFLOW}/demo/films/603",
    headers={"Outflow-Mode": "reject", "Outflow-Cost": "10"},
    timeout=PATIENCE,
)
if answer.headers.get("Proxy-Status", "").startswith("outflow;"):
    problem = answer.json()
    print("refused:", answer.status_code, problem["type"], "by", problem["limit"])
    print("come back in", answer.headers["Retry-After"], "s:", problem["advice"])
