/**
 * What Converse refuses, in its words. Constraints of fields are those of botocore 1.43.11
 * (`data/bedrock-runtime/2023-09-30/service-2.json`); each other rule has the report in which it was seen.
 */

import { claudeGrammarFault, claudeSchemaFault } from './schema-rules.ts'

// biome-ignore lint/suspicious/noExplicitAny: request bodies of every shape
type Any = any

/** An error of the runtime: its type and words. */
export type Fault = { type: string; message: string; status?: number }

function invalid(message: string): Fault {
  return { type: 'ValidationException', message }
}

/** A model's own refusal. */
function returned(message: string): Fault {
  return invalid(`The model returned the following errors: ${message}`)
}

function constraint(at: string, rule: string): Fault {
  return invalid(`1 validation error detected: Value at '${at}' failed to satisfy constraint: ${rule}`)
}

const bodyFields = new Set(
  `messages system inferenceConfig toolConfig guardrailConfig additionalModelRequestFields promptVariables
   additionalModelResponseFieldPaths requestMetadata performanceConfig serviceTier outputConfig`.split(/\s+/),
)
const inferenceFields = new Set(['maxTokens', 'temperature', 'topP', 'stopSequences'])
const imageFormats = ['png', 'jpeg', 'gif', 'webp']
const documentFormats = ['pdf', 'csv', 'doc', 'docx', 'xls', 'xlsx', 'html', 'txt', 'md']
/**
 * Models that refuse an answer's schema: vercel/ai, amazon-bedrock-chat-language-model.ts; Haiku 4.5: vectorize-io/hindsight#3300,
 * vercel/ai#19988. Newer ones of Mistral take it (langchain-ai/langchain-aws#883).
 */
const withoutSchemas =
  /claude-(?:opus-4-[78]|opus-5|sonnet-5|fable-5|haiku-[45])|llama|mi[sx]tral-(?:7b|8x|large-24|small-24)|pixtral|nova/
/** Models that refuse sampling: vercel/ai, amazon-bedrock-opus-5-deprecated-sampling-parameter.json. */
const withoutSampling = /claude-(?:opus-4-[78]|opus-5|sonnet-5|fable-5|haiku-5)/

/** The first fault of a request; null if there is none. */
export function converseFault(body: Any, model: string): Fault | null {
  return fieldFault(body) ?? messageFault(body, model) ?? toolFault(body, model) ?? modelFault(body, model)
}

function fieldFault(body: Any): Fault | null {
  const unknown = Object.keys(body).find(name => !bodyFields.has(name))
  // Coral's strict parsing, as in danny-avila/LibreChat#13838: "extraneous key […] is not permitted".
  if (unknown)
    return invalid(
      `Malformed input request: #: extraneous key [${unknown}] is not permitted, please reformat your input and try again.`,
    )
  const { inferenceConfig: settings = {} } = body
  for (const name of Object.keys(settings))
    if (!inferenceFields.has(name))
      return invalid(`Malformed input request: #/inferenceConfig: extraneous key [${name}] is not permitted`)
  if (settings.maxTokens !== undefined && !(settings.maxTokens >= 1))
    return constraint('inferenceConfig.maxTokens', 'Member must have value greater than or equal to 1')
  for (const name of ['temperature', 'topP'])
    if (settings[name] !== undefined && !(settings[name] >= 0 && settings[name] <= 1))
      return constraint(`inferenceConfig.${name}`, 'Member must have value less than or equal to 1')
  if (settings.stopSequences?.some((stop: string) => stop === ''))
    return constraint('inferenceConfig.stopSequences', 'Member must have length greater than or equal to 1')
  return null
}

function messageFault(body: Any, model: string): Fault | null {
  const { messages = [], system = [] } = body
  if (messages.length === 0) return invalid('The messages field is empty. Add a message and try again.')
  if (messages[0].role !== 'user')
    return invalid(
      'A conversation must start with a user message. Try again with a conversation that starts with a user message.',
    )
  const names = new Set<string>()
  let documents = 0
  let points = countPoints(system) + countPoints(body.toolConfig?.tools ?? [])
  for (const block of system)
    if ('text' in block && block.text.trim() === '')
      return invalid(
        'The text field in the ContentBlock object at system is blank. Add text to the text field, and try again.',
      )
  for (const [index, message] of messages.entries()) {
    const at = `messages.${index}`
    // torinkwok in langgenius/dify#9294: "Conversation Alternation Error".
    if (index > 0 && messages[index - 1].role === message.role)
      return invalid(
        `A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.`,
      )
    // langchain-ai/langchain#26968
    if (message.content.length === 0)
      return invalid(
        `The content field in the Message object at ${at} is empty. Add a ContentBlock object to the content field and try again.`,
      )
    // browser-use/browser-use#710
    const results = message.content.filter((block: Any) => block.toolResult)
    if (/llama|mistral/.test(model) && results.length > 0 && results.length < message.content.length)
      return invalid(`${at}.content: Conversation blocks and tool result blocks cannot be provided in the same turn.`)
    points += countPoints(message.content)
    const stray = pointFault(message.content, at)
    if (stray) return stray
    const fault = blocksFault(message, at, names)
    if (fault) return fault
    documents += message.content.filter((block: Any) => block.document).length
  }
  if (documents > 5) return invalid("You can't include more than 5 documents in a request.")
  const takesPoints = /claude|nova/.test(model)
  if (points > 0 && !takesPoints)
    return {
      type: 'AccessDeniedException',
      status: 403,
      message:
        'You invoked an unsupported model or your request did not allow prompt caching. See the documentation for more information.',
    }
  if (points > 4) return returned(`A maximum of 4 blocks with cache_control may be provided. Found ${points}.`)
  const last = messages.at(-1)
  if (last.role === 'assistant' && withoutSampling.test(model))
    return returned(
      'This model does not support assistant message prefill. The conversation must end with a user message.',
    )
  return callsFault(messages)
}

/** strands-agents/harness-sdk#1966 (after documents that are no PDF), #3677 (after nothing). */
function pointFault(content: Any[], at: string): Fault | null {
  for (const [index, block] of content.entries()) {
    if (!block.cachePoint) continue
    const before = content[index - 1]
    if (!before) return invalid('There is nothing available to cache.')
    if (before.document && before.document.format !== 'pdf')
      return returned(`${at}.content.${index}.type: Field required`)
  }
  return null
}

function countPoints(blocks: Any[]): number {
  return blocks.filter(block => block.cachePoint).length
}

function blocksFault({ role, content }: Any, at: string, names: Set<string>): Fault | null {
  for (const [index, block] of content.entries()) {
    const place = `${at}.content.${index}`
    // boto/botocore#3525
    if (block.text !== undefined && block.text.trim() === '')
      return invalid(
        `The text field in the ContentBlock object at ${place} is blank. Add text to the text field, and try again.`,
      )
    const call = block.toolUse ?? block.toolResult
    if (call && !/^[a-zA-Z0-9_-]{1,64}$/.test(call.toolUseId))
      return constraint(`${place}.toolUseId`, 'Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+')
    if (block.toolUse && !/^[a-zA-Z0-9_-]{1,64}$/.test(block.toolUse.name))
      return constraint(`${place}.toolUse.name`, 'Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+')
    // NousResearch/hermes-agent#55092
    if (block.toolResult?.content.some((part: Any) => part.text !== undefined && part.text.trim() === ''))
      return returned('messages: text content blocks must be non-empty')
    if (block.image && (!imageFormats.includes(block.image.format) || !block.image.source.bytes))
      return constraint(`${place}.image.format`, `Member must satisfy enum value set: [${imageFormats}]`)
    if (block.document) {
      const fault = documentFault(block.document, place, names)
      if (fault) return fault
    }
    if (block.reasoningContent && role !== 'assistant') return returned(`${at}: user messages cannot have thinking`)
    const { reasoningText } = block.reasoningContent ?? {}
    if (reasoningText && !reasoningText.signature) return returned(`${place}.thinking.signature: Field required`)
  }
  if (content.some((block: Any) => block.document) && !content.some((block: Any) => block.text))
    return invalid('A text block is required when a message has documents. Add a text block and try again.')
  return null
}

/** vercel/ai, amazon-bedrock-invalid-document-filenames.json; maximhq/bifrost#7003 */
function documentFault({ name, format }: Any, place: string, names: Set<string>): Fault | null {
  if (!documentFormats.includes(format))
    return constraint(`${place}.document.format`, `Member must satisfy enum value set: [${documentFormats}]`)
  if (name.length < 1 || name.length > 200)
    return constraint(`${place}.document.name`, 'Member must have length less than or equal to 200')
  if (!/^[a-zA-Z0-9\s\-()[\]]+$/.test(name) || /\s\s/.test(name))
    return invalid(
      "The document file name can only contain alphanumeric characters, whitespace characters, hyphens, parentheses, and square brackets. The name can't contain more than one consecutive whitespace character.",
    )
  if (names.has(name.toLowerCase()))
    return invalid("Messages can't contain duplicate document names. Rename the document and retry your request.")
  names.add(name.toLowerCase())
  return null
}

function idsIn(content: Any[], name: 'toolUse' | 'toolResult'): string[] {
  return content.flatMap(block => (block[name] ? [block[name].toolUseId] : []))
}

function callsFault(messages: Any[]): Fault | null {
  for (const [index, { role, content }] of messages.entries()) {
    const called = role === 'assistant' ? idsIn(content, 'toolUse') : []
    const answered = idsIn(messages[index + 1]?.content ?? [], 'toolResult')
    const missing = called.filter(id => !answered.includes(id))
    if (missing.length > 0)
      return invalid(`Expected toolResult blocks at messages.${index + 1}.content for the following Ids: ${missing}`)
    if (new Set(called).size < called.length) return invalid('The toolUse blocks contain duplicate Ids')
  }
  return null
}

function extraneousKey(schema: object): string | undefined {
  return Object.keys(schema).find(key => !['type', 'properties', 'required'].includes(key))
}

function toolFault({ messages, toolConfig }: Any, model: string): Fault | null {
  const isClaude = model.includes('anthropic')
  const hasToolBlocks = messages.some(({ content }: Any) =>
    content.some((block: Any) => block.toolUse || block.toolResult),
  )
  // vxcontrol/pentagi#196
  if (!toolConfig)
    return hasToolBlocks
      ? invalid('The toolConfig field must be defined when using toolUse and toolResult content blocks.')
      : null
  if (!(toolConfig.tools?.length >= 1))
    return constraint('toolConfig.tools', 'Member must have length greater than or equal to 1')
  for (const { toolSpec, cachePoint } of toolConfig.tools) {
    if (cachePoint) continue
    if (!/^[a-zA-Z0-9_-]{1,64}$/.test(toolSpec.name))
      return constraint(
        'toolConfig.tools.1.member.toolSpec.name',
        'Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+',
      )
    if (toolSpec.description === '')
      return constraint(
        'toolConfig.tools.1.member.toolSpec.description',
        'Member must have length greater than or equal to 1',
      )
    // zed-industries/zed#28521; "Only three fields are supported in the top-level Object": docs.aws.amazon.com/nova/latest/userguide/tool-use-definition.html
    const extraneous = model.includes('nova') && extraneousKey(toolSpec.inputSchema?.json)
    if (extraneous)
      return returned(
        `Malformed input request: #/toolConfig/tools/0/toolSpec/inputSchema/json: extraneous key [${extraneous}] is not permitted, please reformat your input and try again.`,
      )
    const schemaFault = isClaude ? claudeSchemaFault([{ input_schema: toolSpec.inputSchema?.json }], null) : null
    if (schemaFault) return returned(schemaFault)
    if (toolSpec.inputSchema?.json?.type !== 'object')
      return invalid(
        'The value at toolConfig.tools.0.toolSpec.inputSchema.json.type must be one of the following: object.',
      )
  }
  const kinds = Object.keys(toolConfig.toolChoice ?? {})
  return kinds.every(kind => ['auto', 'any', 'tool'].includes(kind))
    ? null
    : constraint('toolConfig.toolChoice', 'unknown member')
}

function modelFault(body: Any, model: string): Fault | null {
  const { inferenceConfig: settings = {}, toolConfig, outputConfig } = body
  const fields = body.additionalModelRequestFields ?? {}
  const isClaude = model.includes('anthropic')
  if (withoutSampling.test(model) && (settings.temperature !== undefined || settings.topP !== undefined))
    return returned('`temperature` is deprecated for this model.')
  // aws-samples/sample-connector-for-bedrock#87
  if (isClaude && settings.temperature !== undefined && settings.topP !== undefined)
    return returned('`temperature` and `top_p` cannot both be specified for this model. Please use only one.')
  const schema = outputConfig?.textFormat?.structure?.jsonSchema?.schema
  const compiled = isClaude && schema ? JSON.parse(schema) : null
  const schemaFault =
    compiled && (claudeSchemaFault([], compiled) ?? claudeGrammarFault(compiled, 'output_config.format.schema'))
  if (schemaFault) return returned(schemaFault)
  if (outputConfig?.textFormat && withoutSchemas.test(model))
    return returned('output_config.format: Extra inputs are not permitted')
  // vercel/ai, issue-17267-tool-choice-conflict.json
  if (fields.tool_choice && toolConfig?.toolChoice)
    return invalid(
      `The additional field tool_choice/type conflicts with the existing field toolConfig.toolChoice.${Object.keys(toolConfig.toolChoice)[0]}. Remove tool_choice/type and try again.`,
    )
  const isThinking = fields.thinking && fields.thinking.type !== 'disabled'
  if (isThinking && (settings.temperature !== undefined || settings.topP !== undefined))
    return returned('`temperature` may only be set to 1 when thinking is enabled.')
  if (fields.thinking?.budget_tokens >= settings.maxTokens)
    return returned('`max_tokens` must be greater than `thinking.budget_tokens`.')
  const isForced =
    toolConfig?.toolChoice?.any || toolConfig?.toolChoice?.tool || ['any', 'tool'].includes(fields.tool_choice?.type)
  if (isThinking && isForced) return returned('Thinking may not be enabled when tool_choice forces tool use.')
  // vercel/ai, amazon-bedrock-nova-2-high-reasoning-validation-error.json
  if (fields.reasoningConfig?.maxReasoningEffort === 'high' && settings.maxTokens !== undefined)
    return returned(
      "`maxTokens` must be unset when reasoningConfig type is 'enabled' and maxReasoningEffort is 'high'.",
    )
  // vercel/ai, amazon-bedrock-openai-cris-reasoning-config-error.json
  const foreign = Object.keys(fields).find(name => !ownFields(model).includes(name))
  return foreign
    ? returned(`{"error":{"code":"unknown_parameter","message":"Unknown parameter: '${foreign}'."}}`)
    : null
}

function ownFields(model: string): string[] {
  if (model.includes('anthropic')) return ['thinking', 'output_config', 'tool_choice', 'anthropic_beta', 'top_k']
  if (model.includes('openai')) return ['reasoning_effort']
  return model.includes('nova') ? ['reasoningConfig', 'inferenceConfig'] : []
}
