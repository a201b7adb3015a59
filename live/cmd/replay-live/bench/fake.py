"""A minimal fake server with FastAPI, uvicorn and json. It sends a token every ITL seconds."""

import asyncio
import json
import sys
import time
import uuid

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

ITL = float(sys.argv[2])
app = FastAPI()


def event(answer: str, text: str, reason: str | None) -> str:
    chunk = {
        "id": answer, "object": "text_completion", "created": int(time.time()), "model": "fake",
        "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": reason}],
    }
    return "data: " + json.dumps(chunk) + "\n\n"


@app.get("/health")
async def health() -> dict:
    return {}


@app.post("/v1/completions")
async def completions(request: Request):
    body = await request.json()
    n, answer = int(body.get("max_tokens", 16)), "cmpl-" + str(uuid.uuid4())
    if not body.get("stream"):
        await asyncio.sleep(ITL * n)
        return {
            "id": answer, "object": "text_completion", "created": int(time.time()), "model": "fake",
            "choices": [{"index": 0, "text": " word" * n, "logprobs": None, "finish_reason": "length"}],
            "usage": {"prompt_tokens": 4, "completion_tokens": n, "total_tokens": 4 + n},
        }

    async def events():
        for i in range(n):
            await asyncio.sleep(ITL)
            yield event(answer, " word", "length" if i == n - 1 else None)
        yield "data: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
