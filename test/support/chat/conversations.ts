import fc from 'fast-check'
import { textureFile } from '../../../shared/providers/sandbox/media/mesh-files.ts'
import { pdfOfPages } from '../media/documents.ts'

/** A conversation apart from any dialect. */
export type Conversation = {
  system: string | null
  rounds: Round[]
  tools: Tool[]
  choice: Choice | null
  isParallel: boolean
  maxTokens: number
  temperature: number | null
  topP: number | null
  /** An object is to be answered. */
  isStructured: boolean
  effort: 'low' | 'medium' | 'high' | null
  stop: string[] | null
}
export type Dialect = 'chat' | 'messages' | 'responses' | 'generate_content'

type Part = { text: string } | { image: string } | { pdf: string }
type Call = { id: string; name: string; input: Record<string, string>; result: string }
/** What the user says, and what the model does after it; null where it has to. */
type Round = { said: Part[]; answer: { text: string | null; calls: Call[] } | null }
type Tool = { name: string; description: string; strict?: true }
type Choice = 'auto' | 'required' | 'none' | { tool: string }

const schema = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
const filename = 'terms.pdf'

/** The path of a dialect; Google's has the model. */
export function pathOf(dialect: Dialect, model: string): string {
  return dialect === 'generate_content' ? `/v1beta/models/${model}:generateContent` : paths[dialect]
}

const paths: Record<Exclude<Dialect, 'generate_content'>, string> = {
  chat: '/v1/chat/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
}

/** Whether Google's form can say a conversation: it has neither strict tools nor one call at a time. */
export function isSayableInGemini({ tools, choice, isParallel }: Conversation): boolean {
  return (isParallel || !choice || tools.length === 0) && !tools.some(tool => tool.strict)
}

/** The request of one dialect that says what the conversation does. */
export function requestIn(dialect: Dialect, model: string, conversation: Conversation): object {
  const body = writers[dialect](conversation)
  return dialect === 'generate_content' ? body : { model, ...body }
}

const writers: Record<Dialect, (conversation: Conversation) => object> = {
  chat: chatRequest,
  messages: messagesRequest,
  responses: responsesRequest,
  generate_content: geminiRequest,
}

function chatRequest(conversation: Conversation): object {
  const { system, rounds, tools, choice, isParallel, maxTokens, isStructured, effort, stop } = conversation
  return {
    messages: [...(system === null ? [] : [{ role: 'system', content: system }]), ...rounds.flatMap(chatMessages)],
    max_completion_tokens: maxTokens,
    ...samplingOf(conversation),
    ...(stop && { stop }),
    ...(effort && { reasoning_effort: effort }),
    ...(tools.length > 0 && {
      tools: tools.map(tool => ({ type: 'function', function: { ...tool, parameters: schema } })),
      ...(choice && {
        tool_choice: typeof choice === 'string' ? choice : { type: 'function', function: { name: choice.tool } },
      }),
      ...(!isParallel && { parallel_tool_calls: false }),
    }),
    ...(isStructured && {
      response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } },
    }),
  }
}

function chatMessages({ said, answer }: Round): object[] {
  const user = { role: 'user', content: chatContent(said) }
  if (!answer) return said.length > 0 ? [user] : []
  const calls = answer.calls.map(({ id, name, input }) => {
    return { id, type: 'function', function: { name, arguments: JSON.stringify(input) } }
  })
  return [
    user,
    { role: 'assistant', content: answer.text, ...(calls.length > 0 && { tool_calls: calls }) },
    ...answer.calls.map(({ id, result }) => ({ role: 'tool', tool_call_id: id, content: result })),
  ]
}

function chatContent(said: Part[]): string | object[] {
  const [first] = said
  if (said.length === 1 && 'text' in first!) return first.text
  return said.map(part => {
    if ('text' in part) return { type: 'text', text: part.text }
    if ('image' in part) return { type: 'image_url', image_url: { url: `data:image/png;base64,${part.image}` } }
    return { type: 'file', file: { filename, file_data: `data:application/pdf;base64,${part.pdf}` } }
  })
}

const messagesChoice = { auto: 'auto', required: 'any', none: 'none' }

function messagesRequest(conversation: Conversation): object {
  const { system, rounds, tools, choice, isParallel, maxTokens, isStructured, effort, stop } = conversation
  const messages: { role: string; content: object[] }[] = []
  const add = (role: string, content: object[]) => {
    if (content.length === 0) return
    if (messages.at(-1)?.role === role) messages.at(-1)!.content.push(...content)
    else messages.push({ role, content })
  }
  for (const { said, answer } of rounds) {
    add('user', said.map(messagesBlock))
    if (!answer) continue
    const calls = answer.calls.map(({ id, name, input }) => ({ type: 'tool_use', id, name, input }))
    add('assistant', [...(answer.text === null ? [] : [{ type: 'text', text: answer.text }]), ...calls])
    const results = answer.calls.map(({ id, result }) => ({ type: 'tool_result', tool_use_id: id, content: result }))
    add('user', results)
  }
  const chosen =
    typeof choice === 'object' && choice
      ? { type: 'tool', name: choice.tool }
      : choice && { type: messagesChoice[choice] }
  const output = {
    ...(effort && { effort }),
    ...(isStructured && { format: { type: 'json_schema', schema } }),
  }
  return {
    max_tokens: maxTokens,
    ...(system !== null && { system }),
    messages,
    ...samplingOf(conversation),
    ...(stop && { stop_sequences: stop }),
    ...(tools.length > 0 && {
      tools: tools.map(tool => ({ ...tool, input_schema: schema })),
      ...(chosen && { tool_choice: { ...chosen, ...(!isParallel && { disable_parallel_tool_use: true }) } }),
    }),
    ...(Object.keys(output).length > 0 && { output_config: output }),
  }
}

function messagesBlock(part: Part): object {
  if ('text' in part) return { type: 'text', text: part.text }
  if ('image' in part) return { type: 'image', source: { type: 'base64', media_type: 'image/png', data: part.image } }
  const source = { type: 'base64', media_type: 'application/pdf', data: part.pdf }
  return { type: 'document', source, title: filename }
}

function responsesRequest(conversation: Conversation): object {
  const { system, rounds, tools, choice, isParallel, maxTokens, isStructured, effort } = conversation
  return {
    ...(system !== null && { instructions: system }),
    input: rounds.flatMap(responsesItems),
    max_output_tokens: maxTokens,
    store: false,
    ...samplingOf(conversation),
    ...(effort && { reasoning: { effort } }),
    ...(tools.length > 0 && {
      tools: tools.map(tool => ({ type: 'function', ...tool, parameters: schema })),
      ...(choice && { tool_choice: typeof choice === 'string' ? choice : { type: 'function', name: choice.tool } }),
      ...(!isParallel && { parallel_tool_calls: false }),
    }),
    ...(isStructured && { text: { format: { type: 'json_schema', name: 'answer', schema, strict: true } } }),
  }
}

function responsesItems({ said, answer }: Round): object[] {
  const { text = null, calls = [] } = answer ?? {}
  return [
    ...(said.length > 0 ? [{ type: 'message', role: 'user', content: said.map(responsesPart) }] : []),
    ...(text === null ? [] : [{ type: 'message', role: 'assistant', content: text }]),
    ...calls.map(({ id, name, input }) => {
      return { type: 'function_call', call_id: id, name, arguments: JSON.stringify(input) }
    }),
    ...calls.map(({ id, result }) => ({ type: 'function_call_output', call_id: id, output: result })),
  ]
}

function responsesPart(part: Part): object {
  if ('text' in part) return { type: 'input_text', text: part.text }
  if ('image' in part) return { type: 'input_image', image_url: `data:image/png;base64,${part.image}` }
  return { type: 'input_file', filename, file_data: `data:application/pdf;base64,${part.pdf}` }
}

const geminiModes = { auto: 'AUTO', required: 'ANY', none: 'NONE' }

function geminiRequest(conversation: Conversation): object {
  const { system, rounds, tools, choice, maxTokens, isStructured, effort, stop, temperature, topP } = conversation
  const mode = typeof choice === 'object' && choice ? 'ANY' : choice && geminiModes[choice]
  const allowedFunctionNames = typeof choice === 'object' && choice ? [choice.tool] : undefined
  return {
    ...(system !== null && { systemInstruction: { parts: [{ text: system }] } }),
    contents: rounds.flatMap(geminiContents),
    ...(tools.length > 0 && {
      tools: [{ functionDeclarations: tools.map(tool => ({ ...tool, parametersJsonSchema: schema })) }],
      ...(mode && { toolConfig: { functionCallingConfig: { mode, allowedFunctionNames } } }),
    }),
    generationConfig: {
      maxOutputTokens: maxTokens,
      ...(temperature === null ? topP !== null && { topP } : { temperature }),
      ...(stop && { stopSequences: stop }),
      ...(isStructured && { responseMimeType: 'application/json', responseJsonSchema: schema }),
      ...(effort && { thinkingConfig: { thinkingLevel: effort.toUpperCase() } }),
    },
  }
}

function geminiContents({ said, answer }: Round): object[] {
  const user = said.length > 0 ? [{ role: 'user', parts: said.map(geminiPart) }] : []
  if (!answer) return user
  const calls = answer.calls.map(({ id, name, input }) => ({ functionCall: { id, name, args: input } }))
  const results = answer.calls.map(({ id, name, result }) => {
    return { functionResponse: { id, name, response: { output: result } } }
  })
  return [
    ...user,
    { role: 'model', parts: [...(answer.text === null ? [] : [{ text: answer.text }]), ...calls] },
    ...(results.length > 0 ? [{ role: 'user', parts: results }] : []),
  ]
}

function geminiPart(part: Part): object {
  if ('text' in part) return part
  if ('image' in part) return { inlineData: { mimeType: 'image/png', data: part.image } }
  return { inlineData: { mimeType: 'application/pdf', data: part.pdf, displayName: filename } }
}

function samplingOf({ temperature, topP }: Conversation): object {
  // Some models take one of them only.
  if (temperature !== null) return { temperature }
  return topP === null ? {} : { top_p: topP }
}

/** What the model of a conversation takes, apart from text, images and tools. */
export type Abilities = { takesFiles: boolean; hasEffort: boolean }

/** Not blank: blank texts are left out for the providers that refuse them. */
const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }).map(letters => `Say ${letters} now`)
const image = textureFile().toString('base64')
const pdf = pdfOfPages(1).toString('base64')
const toolNames = ['look_up', 'write-down', 'Send2']
const tenths = fc.integer({ min: 1, max: 10 }).map(count => count / 10)
const answer = fc
  .record({
    text: fc.option(text),
    calls: fc.array(
      fc.record({ name: fc.constantFrom(...toolNames), input: fc.record({ city: text }), result: text }),
      { maxLength: 3 },
    ),
  })
  .filter(one => one.text !== null || one.calls.length > 0)
const choice: fc.Arbitrary<Choice> = fc.oneof(
  fc.constantFrom('auto', 'required', 'none'),
  fc.constantFrom(...toolNames).map(tool => ({ tool })),
)

/** Conversations that every dialect can say; Responses has no `stop`. */
export function conversations({ takesFiles, hasEffort }: Abilities): fc.Arbitrary<Conversation> {
  const part: fc.Arbitrary<Part> = fc.oneof(
    { weight: 3, arbitrary: text.map(one => ({ text: one })) },
    { weight: 1, arbitrary: fc.constant({ image }) },
    { weight: takesFiles ? 1 : 0, arbitrary: fc.constant({ pdf }) },
  )
  const said = fc.array(part, { minLength: 1, maxLength: 3 })
  return fc
    .record({
      system: fc.option(text),
      earlier: fc.array(fc.record({ said, answer }), { maxLength: 3 }),
      last: said,
      endsWithResults: fc.boolean(),
      hasTools: fc.boolean(),
      isStrict: fc.boolean(),
      choice: fc.option(choice),
      isParallel: fc.boolean(),
      maxTokens: fc.integer({ min: 16, max: 4_000 }),
      temperature: fc.option(tenths),
      topP: fc.option(tenths),
      isStructured: fc.boolean(),
      effort: hasEffort ? fc.option(fc.constantFrom('low', 'medium', 'high')) : fc.constant(null),
      stop: fc.option(fc.subarray(['END', 'STOP', '###'], { minLength: 1 })),
    })
    .map(({ earlier, last, endsWithResults, hasTools, isStrict, isParallel, ...settings }) => {
      const before = earlier.map((round, index) => {
        const calls = round.answer.calls.map((call, position) => ({ ...call, id: `call_${index}_${position}` }))
        return { said: round.said, answer: { text: round.answer.text, calls } }
      })
      const calls = before.at(-1)?.answer.calls ?? []
      const rounds = endsWithResults && calls.length > 0 ? before : [...before, { said: last, answer: null }]
      const needsTools = hasTools || before.some(round => round.answer.calls.length > 0)
      const tools = toolNames.map(name => ({
        name,
        description: `Tool ${name}`,
        ...(isStrict && { strict: true as const }),
      }))
      // Messages has one field for the choice and for parallel calls.
      const canForbid = settings.choice !== null && settings.choice !== 'none'
      return { ...settings, rounds, tools: needsTools ? tools : [], isParallel: isParallel || !canForbid }
    })
}
