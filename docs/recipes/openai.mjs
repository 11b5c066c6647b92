// OpenAI's own library for Node behind Outflow: another base URL, and no retries of its own.
//
// npm install openai

import OpenAI from "openai";

const outflow = process.env.OUTFLOW_URL ?? "http://127.0.0.1:7070";

const client = new OpenAI({
  // `chat` is an API of `outflow dev`; after `outflow init --preset openai` it is /openai.
  baseURL: `${outflow}/chat`,
  // Outflow replaces it by the key of its configuration (api_key_env), if there is one, as in `outflow dev`.
  apiKey: process.env.OPENAI_API_KEY ?? "kept by Outflow",
  // Outflow retries where that is safe, within the limits; a second set of retries would multiply them.
  maxRetries: 0,
});

const question = {
  model: "gpt-4o-mini",
  messages: [{ role: "user", content: "Why should I wait?" }],
  max_tokens: 380,
};
// Limits in tokens are kept before a call is sent, so say the most that it can use: those of the question
// and `max_tokens`. Nothing of it reaches the API.
const headers = { "Outflow-Cost": "400", "Outflow-Deadline": "1m" };

// A completion, with how long it waited: `withResponse` shows the headers.
const { data, response } = await client.chat.completions.create(question, { headers }).withResponse();
console.log(data.choices[0].message.content);
console.log("waited", response.headers.get("outflow-wait"), "s, used", data.usage.total_tokens, "tokens");

// The same, word by word as it is written.
for await (const chunk of await client.chat.completions.create({ ...question, stream: true }, { headers })) {
  process.stdout.write(chunk.choices[0]?.delta?.content ?? "");
}
console.log();

// Instead of waiting: a call that cannot go now is refused at once, and nothing is sent. The error has the reason
// in `message`, its name in `code`, and the time of the next attempt in its headers.
try {
  await client.chat.completions.create(question, { headers: { ...headers, "Outflow-Mode": "reject" } });
} catch (refused) {
  if (!(refused instanceof OpenAI.RateLimitError)) throw refused;
  console.log("refused:", refused.status, refused.code, "because", refused.message);
  console.log("come back in", refused.headers.get("retry-after"), "s");
}
