import { events, json, type Reply } from './emulator.ts'

/** What a server answers: the same in the form of each. A call without `args` takes no arguments. */
export type Said = { reasoning?: string; text?: string; calls?: { name: string; args?: object }[] }

type Json = Record<string, unknown>
/** The deviations of a server from OpenAI's form. */
type Form = {
  message(said: Said): Json
  deltas(said: Said): Json[]
  /** The finish reason of an answer with calls; of one without it is `stop`. */
  callsFinish?: string
  /** Where the usage is, in the whole answer or the last chunk; at `usage` by default. */
  place?(ending: Json, usage: Json): Json
  usage?: Json
  /** The time of each answer and chunk. */
  created?: unknown
}

/** What every answer counts: 20 tokens of prompt, of which 8 were cached, and 12 of completion. */
const counted = { prompt_tokens: 20, completion_tokens: 12, total_tokens: 32 }
const cached = { prompt_tokens_details: { cached_tokens: 8 } }

const head = { id: 'cmpl-up', created: 1_795_132_800, model: 'up' }
const argumentsOf = ({ args }: { args?: object }) => (args ? JSON.stringify(args) : '')
const parts = (text = '') => text.match(/.{1,4}/gsu) ?? []

/** Calls complete in one delta, as most servers but OpenAI give them. */
const callsOf = ({ calls = [] }: Said, form: (call: { name: string; args?: object }, index: number) => Json) =>
  calls.length > 0 ? { tool_calls: calls.map(form) } : {}

/** Recorded or reported forms of the servers that speak OpenAI's protocol, each with where it was seen. */
export const servers: Record<string, Form> = {
  /** No `type` anywhere, no `index` in streams; pydantic-ai’s recordings of api.mistral.ai, Mistral’s OpenAPI (`ToolCall`). */
  Mistral: {
    message: said => ({
      role: 'assistant',
      content: said.reasoning ? thinkingParts(said) : (said.text ?? ''),
      ...callsOf(said, (call, index) => ({
        id: `aB3dE5gH${index}`,
        function: { name: call.name, arguments: JSON.stringify(call.args ?? {}) },
      })),
    }),
    deltas: said => [
      { role: 'assistant', content: '' },
      ...(said.reasoning ? thinkingParts(said).map(part => ({ content: [part] })) : parts(said.text).map(toContent)),
      ...(said.calls ? [{ content: '', ...callsInOneDelta(said) }] : []),
    ],
    usage: { ...counted, ...cached },
  },
  /** The first delta has no role (recorded for groq/compound); the usage is in `x_groq` (console.groq.com/docs/api-reference). */
  Groq: {
    message: said => ({
      role: 'assistant',
      content: said.text ?? null,
      reasoning: said.reasoning,
      ...plainCalls(said),
    }),
    deltas: said => [
      ...parts(said.reasoning).map(reasoning => ({ reasoning })),
      ...parts(said.text).map(toContent),
      ...(said.calls ? [plainCalls(said)] : []),
    ],
    place: (ending, usage) => ({ ...ending, x_groq: { id: 'req_1', usage } }),
    usage: { ...counted, ...cached },
  },
  /** No arguments at all for a tool without any (recorded for Claude through Google), '' in streams (Kilo-Org/cloud#4753). */
  OpenRouter: {
    message: said => ({
      role: 'assistant',
      content: said.text ?? null,
      reasoning: said.reasoning,
      ...callsOf(said, ({ name, args }, index) => ({
        id: `toolu_${index}`,
        type: 'function',
        index,
        function: { name, ...(args && { arguments: JSON.stringify(args) }) },
      })),
    }),
    deltas: said => [
      ...parts(said.reasoning).map(reasoning => ({ role: 'assistant', content: '', reasoning })),
      ...parts(said.text).map(content => ({ role: 'assistant', content })),
      ...(said.calls ? [plainCalls(said)] : []),
    ],
    usage: { ...counted, ...cached },
  },
  /** The usage in the choice, cached tokens at its top (northes/go-moonshot#17, earendil-works/pi#2017). */
  Kimi: {
    ...kimi(calls => [plainCalls({ calls })]),
    place: (ending, usage) => {
      const [choice] = ending.choices as Json[]
      return { ...ending, choices: [{ ...choice, usage }] }
    },
    usage: { ...counted, cached_tokens: 8 },
  },
  /** Parallel calls without an index: their order tells them apart (vercel/ai, `moonshotai-stream-indexless-tool-calls.chunks.txt`). */
  'Kimi K2.5': {
    ...kimi(indexlessDeltas),
    usage: { ...counted, ...cached },
  },
  /** Ids are '', the finish is `stop`, thoughts count in the total only; Google’s OpenAI endpoint (recorded; agno#2614). */
  'Gemini’s OpenAI endpoint': {
    message: said => ({ role: 'assistant', content: said.text ?? null, reasoning: said.reasoning, ...idless(said) }),
    deltas: said => [
      ...parts(said.reasoning).map(reasoning => ({ role: 'assistant', reasoning })),
      ...parts(said.text).map(content => ({ role: 'assistant', content })),
      ...(said.calls ? [{ role: 'assistant', ...idless(said) }] : []),
    ],
    callsFinish: 'stop',
    usage: { prompt_tokens: 20, completion_tokens: 2, total_tokens: 32, ...cached },
  },
  /** Arguments are objects, one call per chunk, all of index 0; `stop` (ollama/ollama#7881, opencode#14973). */
  Ollama: {
    message: said => ({
      role: 'assistant',
      content: said.text ?? '',
      reasoning: said.reasoning,
      ...callsOf(said, ({ name, args = {} }, index) => ({ id: `call_${index}`, function: { name, arguments: args } })),
    }),
    deltas: said => [
      ...parts(said.reasoning).map(reasoning => ({ role: 'assistant', content: '', reasoning })),
      ...parts(said.text).map(content => ({ role: 'assistant', content })),
      ...(said.calls ?? []).map(({ name, args = {} }, index) => ({
        role: 'assistant',
        content: '',
        tool_calls: [{ id: `call_${index}`, index: 0, type: 'function', function: { name, arguments: args } }],
      })),
    ],
    callsFinish: 'stop',
    usage: { ...counted, ...cached },
  },
  /** Calls are numbered from `call_0` on in each answer (LiteLLM 1.110.2: `is_positional_tool_call_id`, seen at Grok and GPT-5.6). */
  'Amazon Bedrock': {
    message: said => ({
      role: 'assistant',
      content: said.text ?? null,
      reasoning_content: said.reasoning,
      ...plainCalls(said),
    }),
    deltas: said => [
      { role: 'assistant', content: '' },
      ...parts(said.reasoning).map(reasoning_content => ({ reasoning_content })),
      ...parts(said.text).map(toContent),
      ...(said.calls ?? []).flatMap((call, index) => [
        {
          tool_calls: [{ index, id: `call_${index}`, type: 'function', function: { name: call.name, arguments: '' } }],
        },
        ...parts(argumentsOf(call)).map(text => ({ tool_calls: [{ index, function: { arguments: text } }] })),
      ]),
    ],
    usage: { ...counted, ...cached },
  },
  /** The first call has the index 1 (BerriAI/litellm#32759). */
  'Bedrock’s Mantle': {
    message: said => ({
      role: 'assistant',
      content: said.text ?? null,
      reasoning: said.reasoning,
      ...plainCalls(said),
    }),
    deltas: said => [
      { role: 'assistant', content: '' },
      ...parts(said.reasoning).map(reasoning => ({ reasoning })),
      ...parts(said.text).map(toContent),
      ...(said.calls ?? []).flatMap((call, position) => {
        const index = position + 1
        const begun = { index, id: `fc_${index}`, type: 'function', function: { name: call.name, arguments: '' } }
        const rest = parts(argumentsOf(call)).map(text => ({ index, function: { arguments: text } }))
        return [begun, ...rest].map(delta => ({ tool_calls: [delta] }))
      }),
    ],
    usage: { ...counted, ...cached },
  },
  /** Times have decimals (envoyproxy/ai-gateway#962), and an empty list is what a call without arguments has (n8n-io/n8n#25731). */
  SambaNova: {
    message: said => ({
      role: 'assistant',
      content: said.text ?? null,
      reasoning: said.reasoning,
      ...callsOf(said, listForNone),
    }),
    deltas: said => [
      { role: 'assistant', content: '' },
      ...parts(said.reasoning).map(reasoning => ({ reasoning })),
      ...parts(said.text).map(toContent),
      ...(said.calls ? [callsOf(said, listForNone)] : []),
    ],
    usage: { ...counted, ...cached },
    created: 1_795_132_800.4821,
  },
  /** Control tokens of gpt-oss in the names of calls (NorthlandPositronics/Cogtrix#2023; vLLM: vllm-project/vllm#35906). */
  Cerebras: {
    message: said => ({
      role: 'assistant',
      content: said.text ?? null,
      reasoning: said.reasoning,
      ...plainCalls(withTokens(said)),
    }),
    deltas: said => [
      { role: 'assistant' },
      ...parts(said.reasoning).map(reasoning => ({ reasoning })),
      ...parts(said.text).map(toContent),
      ...(said.calls ? [plainCalls(withTokens(said))] : []),
    ],
    usage: { ...counted, ...cached },
  },
  /** Id and name in every delta, nulls in others (mistralai/mistral-vibe#552, vercel/ai#1866: vLLM, SGLang, GLM). */
  vLLM: {
    message: said => ({
      role: 'assistant',
      content: said.text ?? null,
      reasoning_content: said.reasoning ?? null,
      ...plainCalls(said),
      ...(said.calls ? {} : { tool_calls: [], function_call: null }),
    }),
    deltas: said => [
      { role: 'assistant', content: '' },
      ...parts(said.reasoning).map(reasoning_content => ({ reasoning_content, content: null })),
      ...parts(said.text).map(content => ({ content, tool_calls: null })),
      ...(said.calls ?? []).flatMap((call, index) => {
        const id = `chatcmpl-tool-${index}`
        const delta = (text: string | null) => ({
          tool_calls: [{ index, id, type: 'function', function: { name: call.name, arguments: text } }],
        })
        return [delta(null), ...parts(argumentsOf(call)).map(delta)]
      }),
    ],
    usage: { ...counted, ...cached },
  },
}

/** The reply of a server that says this. */
export function serverReply({ message, deltas, callsFinish = 'tool_calls', ...rest }: Form, said: Said): Reply {
  const { created = head.created } = rest
  const { place = (ending: Json, usage: Json) => ({ ...ending, usage }), usage = counted } = rest
  const finish_reason = said.calls ? callsFinish : 'stop'
  return (request, response) => {
    if (!request.body.stream) {
      const choices = [{ index: 0, message: message(said), finish_reason }]
      return json(200, place({ ...head, created, object: 'chat.completion', choices }, usage))(request, response)
    }
    const chunk = (delta: Json, finish: string | null) => ({
      ...head,
      created,
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta, finish_reason: finish }],
    })
    const chunks = [...deltas(said).map(delta => chunk(delta, null)), place(chunk({}, finish_reason), usage)]
    return events([...chunks.map(one => `data: ${JSON.stringify(one)}\n\n`), 'data: [DONE]\n\n'])(request, response)
  }
}

/** The content of Mistral’s answers that reason: docs.mistral.ai/capabilities/reasoning, vercel/ai mistral-reasoning fixtures. */
function thinkingParts({ reasoning, text }: Said): Json[] {
  return [
    { type: 'thinking', thinking: [{ type: 'text', text: reasoning }], closed: true },
    ...(text ? [{ type: 'text', text }] : []),
  ]
}

function toContent(content: string): Json {
  return { content }
}

function plainCalls(said: Said): Json {
  return callsOf(said, (call, index) => ({
    index,
    id: `call_${index}`,
    type: 'function',
    function: { name: call.name, arguments: argumentsOf(call) },
  }))
}

function withTokens({ calls = [], ...said }: Said): Said {
  return { ...said, calls: calls.map(call => ({ ...call, name: `${call.name}<|channel|>commentary` })) }
}

/** The messages and deltas of Kimi, whose servers stream calls in different ways. */
function kimi(callDeltas: (calls: NonNullable<Said['calls']>) => Json[]): Pick<Form, 'message' | 'deltas'> {
  return {
    message: said => ({
      role: 'assistant',
      content: said.text ?? '',
      reasoning_content: said.reasoning,
      ...plainCalls(said),
    }),
    deltas: said => [
      { role: 'assistant', content: '' },
      ...parts(said.reasoning).map(reasoning_content => ({ reasoning_content })),
      ...parts(said.text).map(toContent),
      ...(said.calls ? callDeltas(said.calls) : []),
    ],
  }
}

/** Ids and names of all calls, then a part of the arguments of each in every delta. */
function indexlessDeltas(calls: NonNullable<Said['calls']>): Json[] {
  const begun = calls.map(({ name }, index) => ({
    id: `${name}_${index}`,
    type: 'function',
    function: { name, arguments: '' },
  }))
  const texts = calls.map(({ args = {} }) => parts(JSON.stringify(args)))
  const rows = Array.from({ length: Math.max(...texts.map(({ length }) => length)) }, (_, row) => row)
  return [begun, ...rows.map(row => texts.map(text => ({ function: { arguments: text[row] ?? '' } })))].map(
    tool_calls => ({ tool_calls }),
  )
}

function listForNone({ name, args }: { name: string; args?: object }, index: number): Json {
  return { index, id: `call_${index}`, type: 'function', function: { name, arguments: JSON.stringify(args ?? []) } }
}

function callsInOneDelta(said: Said): Json {
  return callsOf(said, (call, index) => ({
    id: `aB3dE5gH${index}`,
    function: { name: call.name, arguments: JSON.stringify(call.args ?? {}) },
  }))
}

function idless(said: Said): Json {
  return callsOf(said, (call, index) => ({
    index,
    id: '',
    type: 'function',
    function: { name: call.name, arguments: JSON.stringify(call.args ?? {}) },
  }))
}
