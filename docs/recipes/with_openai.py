"""OpenAI's own library behind Outflow: another base URL, and no retries of its own.

pip install openai
"""

import os

import openai

OUTFLOW = os.environ.get("OUTFLOW_URL", "http://127.0.0.1:7070")

client = openai.OpenAI(
    # `chat` is an API of `outflow dev`; after `outflow init --preset openai` it is /openai.
    base_url=f"{OUTFLOW}/chat",
    # Outflow replaces it by the key of its configuration (api_key_env), if there is one, as in `outflow dev`.
    api_key=os.environ.get("OPENAI_API_KEY", "kept by Outflow"),
    # Outflow retries where that is safe, within the limits; a second set of retries would multiply them.
    max_retries=0,
)

question = {
    "model": "gpt-4o-mini",
    "messages": [{"role": "user", "content": "Why should I wait?"}],
    "max_tokens": 380,
    # Limits in tokens are kept before a call is sent, so say the most that it can use: those of the
    # question and `max_tokens`. Nothing of it reaches the API.
    "extra_headers": {"Outflow-Cost": "400", "Outflow-Deadline": "1m"},
}

# A completion, with how long it waited: `with_raw_response` shows the headers.
raw = client.chat.completions.with_raw_response.create(**question)
answer = raw.parse()
print(answer.choices[0].message.content)
print("waited", raw.headers["Outflow-Wait"], "s, used", answer.usage.total_tokens, "tokens")

# The same, word by word as it is written.
for chunk in client.chat.completions.create(**question, stream=True):
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
print()

# Instead of waiting: a call that cannot go now is refused at once, and nothing is sent. The error has the reason,
# its name in `code`, and the body as `response.json()`.
question["extra_headers"]["Outflow-Mode"] = "reject"
try:
    client.chat.completions.create(**question)
except openai.RateLimitError as refused:
    problem = refused.response.json()
    print("refused:", refused.status_code, refused.code, "because", problem["detail"])
    print("come back in", refused.response.headers["Retry-After"], "s:", problem["advice"])
