import { GatewayError } from '../base/errors.ts'
import type { PresetConfig } from './preset-config.ts'
import { type Presets, presetNotFound } from './presets.ts'

/** The formats of requests that presets apply to; `count` ones have the model and the system prompt alone. */
export type PresetDialect =
  | 'chat'
  | 'completion'
  | 'embedding'
  | 'messages'
  | 'messages_count'
  | 'responses'
  | 'responses_count'
  | 'generate_content'
  | 'generate_content_count'

type Members = Record<string, unknown>
/** The preset that a request names, and the model that it names beside it. */
type Named = { name: string; version: number | null; model: string | null; param: string }

const inModel = /^(.*)@preset\/(.*)$/s
const reference = /^(?:@preset\/)?([a-z0-9][a-z0-9_-]{0,63})(?:@(\d{1,9}))?$/

/** A body with the members of the preset that it names, its own first, and the preset with its version. Throws 400. */
export async function applyPreset(
  presets: Presets,
  organisationId: string,
  dialect: PresetDialect,
  body: Members,
): Promise<{ body: Members; preset: string }> {
  const { name, version, model, param } = readName(body)
  const resolved = await presets.resolve(organisationId, name, version)
  if (!resolved) throw presetNotFound(name, version, param)
  const chosen = model ?? resolved.config.model
  if (chosen === undefined) {
    const message = `The preset "${name}" has no model: name one in \`model\`.`
    throw new GatewayError('missing_field', message, { param: 'model' })
  }
  const { preset: _, ...own } = body
  const stated = Object.fromEntries(Object.entries(own).filter(([, value]) => value !== undefined && value !== null))
  const config = model === null ? resolved.config : { ...resolved.config, models: undefined }
  const merged = { ...membersOf[dialect](config, stated), ...stated, ...mergedObjects(dialect, config, stated) }
  return { body: { ...merged, model: chosen }, preset: `${name}@${resolved.version}` }
}

function readName({ model, preset }: Members): Named {
  const [, before = '', inside] = (typeof model === 'string' && inModel.exec(model)) || []
  if (inside !== undefined && preset !== undefined && preset !== null)
    throw new GatewayError('invalid_request', 'Name the preset in `model` or in `preset`, not in both.', {
      param: 'preset',
    })
  const param = inside === undefined ? 'preset' : 'model'
  const given = inside ?? preset
  const [, name, version] = (typeof given === 'string' && reference.exec(given)) || []
  if (name === undefined)
    throw new GatewayError('invalid_request', `\`${param}\`: a preset is named name or name@version.`, { param })
  const stated = inside === undefined ? model : before
  const own = typeof stated === 'string' && stated !== '' ? stated : null
  return { name, version: version === undefined ? null : Number(version), model: own, param }
}

type Config = Omit<PresetConfig, 'models'> & { models?: string[] | undefined }
type Translate = (config: Config, stated: Members) => Members

/** Names by the member of the config that they have in a format; members that a format does not have are left out. */
function renamed(config: Config, names: Record<string, keyof PresetConfig>): Members {
  const members: Members = {}
  for (const [name, from] of Object.entries(names)) if (config[from] !== undefined) members[name] = config[from]
  return members
}

const same = (...names: (keyof PresetConfig)[]) => Object.fromEntries(names.map(name => [name, name]))
const routing = same('mode', 'models', 'provider')
const sampling = same('temperature', 'top_p', 'top_k')
const penalties = same('min_p', 'frequency_penalty', 'presence_penalty', 'repetition_penalty', 'seed', 'stop')

const chat: Translate = (config, { max_completion_tokens: limit, reasoning }) => {
  const members = renamed(config, {
    ...routing,
    ...sampling,
    ...penalties,
    ...same('max_tokens', 'reasoning_effort', 'verbosity', 'parallel_tool_calls', 'response_format'),
  })
  // One name of a setting replaces the other.
  if (limit !== undefined) delete members.max_tokens
  if (reasoning !== undefined) delete members.reasoning_effort
  return members
}

const messages: Translate = (config, { output_config: output, thinking }) => {
  const effort = config.reasoning_effort
  const hasEffort = effort !== undefined && effort !== 'none' && effort !== 'minimal'
  return {
    ...renamed(config, { ...routing, ...sampling, system: 'system', stop_sequences: 'stop', max_tokens: 'max_tokens' }),
    ...(hasEffort && output === undefined && thinking === undefined && { output_config: { effort } }),
  }
}

const responses: Translate = (config, { reasoning, text }) => {
  const { reasoning_effort: effort, verbosity } = config
  return {
    ...renamed(config, {
      ...routing,
      ...same('temperature', 'top_p', 'parallel_tool_calls'),
      instructions: 'system',
      max_output_tokens: 'max_tokens',
    }),
    ...(effort !== undefined && reasoning === undefined && { reasoning: { effort } }),
    ...(verbosity !== undefined && text === undefined && { text: { verbosity } }),
  }
}

const systemOfGoogle = ({ system }: Config): Members =>
  system === undefined ? {} : { systemInstruction: { parts: [{ text: system }] } }

const membersOf: Record<PresetDialect, Translate> = {
  chat,
  completion: config => renamed(config, { ...routing, ...sampling, ...penalties, max_tokens: 'max_tokens' }),
  embedding: config => renamed(config, routing),
  messages,
  messages_count: config => renamed(config, { system: 'system' }),
  responses,
  responses_count: config => renamed(config, { instructions: 'system' }),
  generate_content: config => ({ ...renamed(config, routing), ...systemOfGoogle(config) }),
  generate_content_count: () => ({}),
}

/** Members that a request and its preset both have a part of. */
function mergedObjects(dialect: PresetDialect, config: Config, stated: Members): Members {
  if (dialect === 'generate_content') {
    const own = renamed(config, {
      temperature: 'temperature',
      topP: 'top_p',
      topK: 'top_k',
      maxOutputTokens: 'max_tokens',
      stopSequences: 'stop',
      seed: 'seed',
      frequencyPenalty: 'frequency_penalty',
      presencePenalty: 'presence_penalty',
    })
    const generationConfig = { ...own, ...(stated.generationConfig as Members | undefined) }
    return Object.keys(generationConfig).length > 0 ? { generationConfig } : {}
  }
  if (dialect !== 'chat' || config.system === undefined || !Array.isArray(stated.messages)) return {}
  const hasSystem = stated.messages.some(one => ['system', 'developer'].includes(Object(one).role))
  return hasSystem ? {} : { messages: [{ role: 'system', content: config.system }, ...stated.messages] }
}
