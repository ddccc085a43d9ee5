import json

from agent import MODEL, TASK, record, traces

tracer = traces.get_tracer("airline")
ASKED = [{"role": "user", "parts": [{"type": "text", "content": TASK}]}]
ARGUMENTS = {"id": "EHGLP3"}
CALL = {"type": "tool_call", "id": "call_1", "name": "get_reservation", "arguments": ARGUMENTS}
RESULT = {"type": "tool_call_response", "id": "call_1", "response": "basic economy"}
CALLED = [*ASKED, {"role": "assistant", "parts": [CALL]}, {"role": "tool", "parts": [RESULT]}]
ANSWER = "It cannot be cancelled."


def chat() -> str:
    said = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}]
    about = {"gen_ai.operation.name": "chat", "gen_ai.request.model": MODEL}
    about |= {"gen_ai.input.messages": json.dumps(CALLED), "gen_ai.output.messages": json.dumps(said)}
    with tracer.start_as_current_span("chat", attributes=about):
        return ANSWER


record(chat)
