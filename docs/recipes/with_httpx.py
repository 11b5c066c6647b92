"""httpx behind Outflow, in turn and all at once, over HTTP/1.1 and HTTP/2.

pip install 'httpx[http2]'
"""

import asyncio
import os

import httpx

OUTFLOW = os.environ.get("OUTFLOW_URL", "http://127.0.0.1:7070")
# The default timeout of httpx is five seconds; a call may wait longer for its permit.
PATIENCE = 60

# An ordinary call. It waits for its permit, and the response reports how long.
with httpx.Client(base_url=f"{OUTFLOW}/demo", timeout=PATIENCE) as client:
    answer = client.get("/films/603").raise_for_status()
    print(answer.status_code, "after", answer.headers["Outflow-Wait"], "s in the queue")


async def main():
    # Without TLS nothing is negotiated, so HTTP/2 has to be the only choice. All calls then share one
    # connection: a hundred may wait on it at once.
    async with httpx.AsyncClient(
        base_url=f"{OUTFLOW}/demo", timeout=PATIENCE, http1=False, http2=True
    ) as client:
        # Twenty at once, to an API that allows ten a second and throttles the rest: all get 200.
        answers = await asyncio.gather(*(client.get(f"/films/{n}") for n in range(20)))
        versions = {answer.http_version for answer in answers}
        print(sum(answer.is_success for answer in answers), "answered with 200 over", *versions)

        # Options of this one call. Only the Idempotency-Key reaches the API; with it a POST may be retried.
        answer = await client.post(
            "/orders",
            json={"film": 603},
            headers={
                "Outflow-Cost": "5",
                "Outflow-Priority": "high",
                "Outflow-Deadline": "10s",
                "Outflow-Group": "bulk",
                "Idempotency-Key": "order-7",
            },
        )
        print("steered:", answer.status_code)

        # Instead of waiting: a call that cannot go now is refused at once, and nothing is sent.
        # Proxy-Status marks a refusal of Outflow.
        answer = await client.get(
            "/films/603", headers={"Outflow-Mode": "reject", "Outflow-Cost": "10"}
        )
        if answer.headers.get("Proxy-Status", "").startswith("outflow;"):
            problem = answer.json()
            print("refused:", answer.status_code, problem["type"], "by", problem["limit"])
            print("come back in", answer.headers["Retry-After"], "s:", problem["advice"])


asyncio.run(main())
