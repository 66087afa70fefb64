import type { CatalogModel } from '../../../wire/models.ts'

/** What the set-up of an agent says of a model. */
export type AgentModel = Pick<
  CatalogModel,
  | 'id'
  | 'name'
  | 'owned_by'
  | 'type'
  | 'endpoint'
  | 'context_length'
  | 'max_output_tokens'
  | 'input_modalities'
  | 'supported_parameters'
  | 'quality'
>

/** The set-up of one client: where it goes, and the text to copy. */
export type AgentSnippet = {
  client: string
  /** Where the code goes, as a sentence. */
  place: string
  language: 'sh' | 'json' | 'toml' | 'yaml' | 'text'
  code: string
}

type AgentSettings = {
  /** The address of the gateway, without a path. */
  origin: string
  /** The secret of a key, or a placeholder. */
  key: string
  model: AgentModel
  /** All models that the key can use. */
  models: AgentModel[]
}

/** The models that an agent can work with, which needs tools; the best first. */
export function agentModels<Model extends AgentModel>(models: Model[]): Model[] {
  return models
    .filter(
      ({ type, endpoint, supported_parameters }) =>
        type === 'chat' && endpoint !== '/v1/completions' && supported_parameters.includes('tools'),
    )
    .sort((a, b) => (b.quality ?? 0) - (a.quality ?? 0))
}

/** The set-up of every client for one model. docs/agents.md and the dashboard show these. */
export function agentSnippets(settings: AgentSettings): AgentSnippet[] {
  return [claudeCode, codex, openCode, cline, zed, continueDev, libreChat, openWebUi].map(snippet => snippet(settings))
}

const isClaude = ({ id }: AgentModel) => id.startsWith('claude-')
const exported = (variables: Record<string, string | number>) =>
  Object.entries(variables).map(([name, value]) => `export ${name}=${quoted(String(value))}`)
/** A word for the shell; anything but plain characters is quoted. */
const quoted = (value: string) => (/^[\w./:@…-]*$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`)
const keyVariable = 'HEADGATE_API_KEY'
const json = (value: object) => JSON.stringify(value, null, 2)
/** A YAML or TOML string. */
const text = (value: string) => JSON.stringify(value)

/** Limits under the names of a client; those that the catalog does not have are left out. */
function limits({ context_length, max_output_tokens }: AgentModel, context: string, output: string) {
  return {
    ...(context_length !== null && { [context]: context_length }),
    ...(max_output_tokens !== null && { [output]: max_output_tokens }),
  }
}

/** What Claude Code asks for by default. The price of it is reserved for each request, so that more needs more credits. */
const usualOutputTokens = 32_000

function reserving(model: AgentModel): AgentModel {
  const { max_output_tokens: max } = model
  return { ...model, max_output_tokens: max === null ? null : Math.min(max, usualOutputTokens) }
}

function claudeCode({ origin, key, model, models }: AgentSettings): AgentSnippet {
  const server = { ANTHROPIC_BASE_URL: origin, ANTHROPIC_AUTH_TOKEN: key, ANTHROPIC_API_KEY: '' }
  const small = agentModels(models).findLast(isClaude) ?? model
  const variables: Record<string, string | number> = isClaude(model)
    ? {
        ANTHROPIC_MODEL: model.id,
        ANTHROPIC_DEFAULT_HAIKU_MODEL: small.id,
        CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY: 1,
      }
    : {
        ANTHROPIC_MODEL: model.id,
        ANTHROPIC_DEFAULT_OPUS_MODEL: model.id,
        ANTHROPIC_DEFAULT_SONNET_MODEL: model.id,
        ANTHROPIC_DEFAULT_HAIKU_MODEL: model.id,
        ...limits(reserving(model), 'CLAUDE_CODE_MAX_CONTEXT_TOKENS', 'CLAUDE_CODE_MAX_OUTPUT_TOKENS'),
        CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS: 1,
        CLAUDE_CODE_ATTRIBUTION_HEADER: 0,
      }
  const code = [...exported({ ...server, ...variables }), 'claude'].join('\n')
  return { client: 'Claude Code', place: 'In the shell.', language: 'sh', code }
}

function codex({ origin, model }: AgentSettings): AgentSnippet {
  const lines = [
    `model = ${text(model.id)}`,
    'model_provider = "headgate"',
    '',
    '[model_providers.headgate]',
    'name = "Headgate"',
    `base_url = ${text(`${origin}/v1`)}`,
    `env_key = "${keyVariable}"`,
    'wire_api = "responses"',
    `model_catalog_url = ${text(`${origin}/v1/models`)}`,
    '',
    '[features]',
    'api_key_model_discovery = true',
  ]
  return {
    client: 'Codex',
    place: `In \`~/.codex/config.toml\`; the key is read from \`${keyVariable}\`.`,
    language: 'toml',
    code: lines.join('\n'),
  }
}

function openCode({ origin, model }: AgentSettings): AgentSnippet {
  const limit = limits(model, 'context', 'output')
  // It has no defaults for the other limit where one is given.
  const isLimited = model.context_length !== null && model.max_output_tokens !== null
  const provider = {
    npm: isClaude(model) ? '@ai-sdk/anthropic' : '@ai-sdk/openai-compatible',
    name: 'Headgate',
    options: { baseURL: `${origin}/v1`, apiKey: `{env:${keyVariable}}` },
    models: { [model.id]: { name: model.name, ...(isLimited && { limit }) } },
  }
  const code = json({
    $schema: 'https://opencode.ai/config.json',
    provider: { headgate: provider },
    model: `headgate/${model.id}`,
  })
  return {
    client: 'opencode',
    place: `In \`opencode.json\`; the key is read from \`${keyVariable}\`.`,
    language: 'json',
    code,
  }
}

function cline({ origin, key, model }: AgentSettings): AgentSnippet {
  const fields = {
    'API Provider': 'OpenAI Compatible',
    'Base URL': `${origin}/v1`,
    'API Key': key,
    'Model ID': model.id,
    'Supports Images': model.input_modalities.includes('image') ? 'yes' : 'no',
    ...limits(model, 'Context Window Size', 'Max Output Tokens'),
  }
  const code = Object.entries(fields)
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n')
  return { client: 'Cline', place: 'In the settings, under API Configuration.', language: 'text', code }
}

function zed({ origin, model }: AgentSettings): AgentSnippet {
  const row = {
    name: model.id,
    display_name: model.name,
    ...limits(model, 'max_tokens', 'max_output_tokens'),
    capabilities: {
      tools: true,
      images: model.input_modalities.includes('image'),
      parallel_tool_calls: model.supported_parameters.includes('parallel_tool_calls'),
      prompt_cache_key: true,
      chat_completions: true,
    },
  }
  const code = json({
    language_models: { openai_compatible: { Headgate: { api_url: `${origin}/v1`, available_models: [row] } } },
  })
  return {
    client: 'Zed',
    place: `In \`settings.json\`; enter the key in the settings of the agent, or set \`${keyVariable}\`.`,
    language: 'json',
    code,
  }
}

function continueDev({ origin, model }: AgentSettings): AgentSnippet {
  const options = limits(model, 'contextLength', 'maxTokens')
  const lines = [
    'name: Headgate',
    'version: 1.0.0',
    'schema: v1',
    'models:',
    `  - name: ${text(model.name)}`,
    `    provider: ${isClaude(model) ? 'anthropic' : 'openai'}`,
    `    model: ${text(model.id)}`,
    `    apiBase: ${text(`${origin}/v1`)}`,
    `    apiKey: \${{ secrets.${keyVariable} }}`,
    '    roles: [chat, edit, apply]',
    `    capabilities: [tool_use${model.input_modalities.includes('image') ? ', image_input' : ''}]`,
    ...(Object.keys(options).length > 0 ? ['    defaultCompletionOptions:'] : []),
    ...Object.entries(options).map(([name, value]) => `      ${name}: ${value}`),
  ]
  return {
    client: 'Continue',
    place: `In \`~/.continue/config.yaml\`, with \`${keyVariable}\` in \`~/.continue/.env\`.`,
    language: 'yaml',
    code: lines.join('\n'),
  }
}

function libreChat({ origin, model }: AgentSettings): AgentSnippet {
  const lines = [
    'version: 1.2.8',
    'endpoints:',
    '  custom:',
    '    - name: Headgate',
    `      apiKey: "\${${keyVariable}}"`,
    `      baseURL: ${text(`${origin}/v1`)}`,
    '      models:',
    `        default: [${text(model.id)}]`,
    '        fetch: true',
    '      titleConvo: true',
    '      titleModel: current_model',
  ]
  return {
    client: 'LibreChat',
    place: `In \`librechat.yaml\`, with \`${keyVariable}\` in \`.env\`.`,
    language: 'yaml',
    code: lines.join('\n'),
  }
}

function openWebUi({ origin, key }: AgentSettings): AgentSnippet {
  const variables = { OPENAI_API_BASE_URL: `${origin}/v1`, OPENAI_API_KEY: key }
  const code = [...exported(variables), 'open-webui serve'].join('\n')
  return { client: 'Open WebUI', place: 'In the environment of the server.', language: 'sh', code }
}
