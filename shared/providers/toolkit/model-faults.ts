/**
 * What a model itself got wrong: it wrote a call of a tool, or JSON, that its server could not use. Servers report this as a
 * bad request although nothing is wrong with it: the same request may succeed at another provider, or when it is repeated.
 */
export const modelFaultCodes = ['tool_use_failed', 'json_validate_failed', 'output_parse_failed'] as const
type ModelFaultCode = (typeof modelFaultCodes)[number]

export function isModelFault(code: string): boolean {
  return (modelFaultCodes as readonly string[]).includes(code)
}

/** What the model wrote, for callers that repair it: the code, and the text if the server shows it. */
export type ModelFault = { code: ModelFaultCode; generation: string | null }

/**
 * The words of servers without such a code: Groq's older ones (vercel/ai#5282), Amazon Bedrock's (strands-agents/harness-sdk#649),
 * Ollama's (ollama/ollama#12884) and llama.cpp's (ggml-org/llama.cpp#24644).
 */
const words: readonly [RegExp, ModelFaultCode][] = [
  [/failed to call a function|tool call validation failed|invalid sequence as part of tooluse/i, 'tool_use_failed'],
  [/error parsing tool call|tool call parsing failed|failed to generate tool_calls/i, 'tool_use_failed'],
  [/failed to (?:generate|validate) json(?! schema)/i, 'json_validate_failed'],
  [/model generated output that could not be parsed|^failed to parse input at pos \d/i, 'output_parse_failed'],
]

const maxRead = 1_000
const maxGenerationCharacters = 64 * 1024

/** The model's fault that an error reports, by its code or its message; null if it is another error. */
export function modelFaultOf(codes: readonly string[], message: string, generation: unknown): ModelFault | null {
  const beginning = message.slice(0, maxRead)
  const code =
    modelFaultCodes.find(known => codes.includes(known)) ??
    words.find(([pattern]) => pattern.test(beginning))?.[1] ??
    (typeof generation === 'string' ? 'tool_use_failed' : undefined)
  if (!code) return null
  return { code, generation: typeof generation === 'string' ? generation.slice(0, maxGenerationCharacters) : null }
}
