"""Meets refusals with OpenAI's library and prints what a user sees: one line of JSON each."""

import json
import os

import openai

OUTFLOW = os.environ["OUTFLOW_URL"]
QUESTION = {"model": "m", "messages": [{"role": "user", "content": "Why?"}], "max_tokens": 5}


def ask(headers, api="chat"):
    client = openai.OpenAI(base_url=f"{OUTFLOW}/{api}", api_key="kept by Outflow", max_retries=0)
    return client.chat.completions.create(**QUESTION, extra_headers=headers)


def report(name, *call):
    try:
        ask(*call)
        print(json.dumps({"name": name}))
    except openai.APIStatusError as error:
        retry = error.response.headers.get("x-should-retry")
        seen = {"status": error.status_code, "message": str(error), "type": error.type, "code": error.code}
        print(json.dumps({"name": name, **seen, "shouldRetry": retry}))


report("cost_too_high", {"Outflow-Cost": "100000"})
report("unknown_group", {"Outflow-Group": "none"})
report("unknown_api", {}, "nowhere")
ask({"Outflow-Cost": "1000"})
report("busy", {"Outflow-Cost": "1000", "Outflow-Mode": "reject"})
report("too_late", {"Outflow-Cost": "1000", "Outflow-Deadline": "1s"})
