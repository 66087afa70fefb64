/**
 * The name of a tool as a model has called it, without the control tokens of gpt-oss' format that servers leave in it:
 * `clock<|channel|>commentary` (recorded at Amazon Bedrock in vercel/ai, `issue-9967-gpt-oss-json-tool-name-channel.json`; Cerebras:
 * NorthlandPositronics/Cogtrix#2023; vLLM: vllm-project/vllm#35906). Tools have no such names: a client would not find its own,
 * and Bedrock refuses the call when it is handed back. A blank name is none: ''.
 */
export function calledName(name: string): string {
  const tokenAt = name.indexOf('<|')
  if (tokenAt > 0) return name.slice(0, tokenAt).trimEnd()
  return name.trim() === '' ? '' : name
}
