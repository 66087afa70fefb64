import { agentSnippets } from '../../../api/dashboard/web/pages/keys/agent-snippets.ts'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { endpoints } from '../../../shared/catalog/schema.ts'

/** What an agent is told: no more than the address, the key and the model. */
export type Setup = {
  /** A temporary folder, its home. */
  home: string
  /** The address of the gateway, without a path. */
  origin: string
  key: string
  model: string
  /** The context window that it believes the model has. */
  contextTokens: number
}

/**
 * At a command, when the window that it knows is full, or after a provider's refusal. An agent that shortens its
 * conversation without a model prints `said`.
 */
export type Compaction = { prompt?: string; contextTokens?: number; said?: string }

/** How one coding agent is started without a terminal. */
export type Agent = {
  name: string
  /** Its npm package, and where npm puts its program. */
  package: string
  program: string
  env(setup: Setup): Record<string, string>
  /** Its configuration, by the path in its home. */
  files?(setup: Setup): Record<string, string>
  /** The arguments of what runs once, before the first prompt. */
  login?(setup: Setup): string[]
  /** The arguments that give it a prompt, in a new session or in its last one. */
  prompt(setup: Setup, prompt: string, isResumed: boolean): string[]
  /** How it compacts a conversation. */
  compaction: Compaction
  /** A model with which it does not compact, and why. */
  uncompacted?: { model: string; reason: string }
  /** How a stream is cut that it survives, if it does not survive a cut in the middle of a text. */
  cut?: 'early'
  /** The models of the short run. */
  models: string[]
}

/** The models of the whole run: one of each provider, and the router's choice. */
export const allModels = ['gpt-6-luna', 'claude-sonnet-5-5', 'gemini-3.5-flash', 'auto']

const platform = `${process.platform}-${process.arch}`
const headgateKey = ({ key }: Setup) => ({ HEADGATE_API_KEY: key })

/** The set-up that docs/agents.md and the dashboard show. */
function snippetFor(client: string, { origin, key, model: id, contextTokens }: Setup): string {
  const row = loadCatalog().models.get(id) ?? loadCatalog().models.get('gpt-6-luna')!
  const limits = {
    context_length: contextTokens,
    max_output_tokens: Math.min(row.max_output_tokens!, contextTokens / 4),
  }
  const model = { ...row, ...limits, id, endpoint: row.endpoint ?? endpoints[row.type] }
  return agentSnippets({ origin, key, model, models: [model] }).find(snippet => snippet.client === client)!.code
}

function exportsOf(snippet: string): Record<string, string> {
  return Object.fromEntries(
    [...snippet.matchAll(/^export (\w+)='?(.*?)'?$/gm)].map(([, name, value]) => [name!, value!]),
  )
}

const claudeCode: Agent = {
  name: 'Claude Code',
  package: '@anthropic-ai/claude-code',
  program: `@anthropic-ai/claude-code-${platform}/claude`,
  env: setup => ({
    ...exportsOf(snippetFor('Claude Code', setup)),
    DISABLE_TELEMETRY: '1',
    DISABLE_ERROR_REPORTING: '1',
    DISABLE_AUTOUPDATER: '1',
    // It refuses to skip permissions as root otherwise.
    IS_SANDBOX: '1',
  }),
  prompt: (_setup, prompt, isResumed) => [
    '-p',
    prompt,
    '--dangerously-skip-permissions',
    '--output-format',
    'json',
    ...(isResumed ? ['-c'] : []),
  ],
  compaction: { prompt: '/compact' },
  models: ['claude-sonnet-5-5', 'gemini-3.5-flash'],
}

const codex: Agent = {
  name: 'Codex',
  package: '@openai/codex',
  program: '.bin/codex',
  env: setup => ({ ...headgateKey(setup), CODEX_HOME: setup.home }),
  files: setup => ({ 'config.toml': snippetFor('Codex', setup) }),
  prompt({ contextTokens }, prompt, isResumed) {
    const settings = ['approval_policy="never"', 'sandbox_mode="danger-full-access"', 'analytics.enabled=false']
    const limit = `model_auto_compact_token_limit=${contextTokens}`
    const overrides = [...settings, limit].flatMap(setting => ['-c', setting])
    const resume = isResumed ? ['resume', '--last'] : []
    return ['exec', ...resume, '--json', '--skip-git-repo-check', ...overrides, prompt]
  },
  compaction: { contextTokens: 30_000 },
  models: ['gpt-6-luna', 'claude-sonnet-5-5'],
}

const opencode: Agent = {
  name: 'opencode',
  package: 'opencode-ai',
  program: `opencode-${platform}/bin/opencode`,
  env: setup => ({ ...headgateKey(setup), OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_AUTOUPDATE: '1' }),
  files: setup => {
    const config = {
      ...JSON.parse(snippetFor('opencode', setup)),
      permission: 'allow',
      autoupdate: false,
      share: 'disabled',
    }
    return { '.config/opencode/opencode.json': JSON.stringify(config) }
  },
  prompt: (_setup, prompt, isResumed) => ['run', ...(isResumed ? ['-c'] : []), prompt],
  compaction: { contextTokens: 40_000 },
  models: ['claude-sonnet-5-5'],
}

const pi: Agent = {
  name: 'pi',
  package: '@earendil-works/pi-coding-agent',
  program: '.bin/pi',
  env: () => ({ PI_OFFLINE: '1', PI_TELEMETRY: '0' }),
  files({ origin, key, model: id, contextTokens: contextWindow }) {
    const model = { id, name: id, reasoning: false, input: ['text'], contextWindow, maxTokens: 8_000 }
    const cost = { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 }
    const headgate = { baseUrl: `${origin}/v1`, apiKey: key, api: 'openai-completions', models: [{ ...model, cost }] }
    return { '.pi/agent/models.json': JSON.stringify({ providers: { headgate } }) }
  },
  prompt: ({ model }, prompt, isResumed) => [
    '--provider',
    'headgate',
    '--model',
    model,
    '-p',
    ...(isResumed ? ['-c'] : []),
    prompt,
  ],
  compaction: { contextTokens: 30_000 },
  models: ['gpt-6-luna'],
}

const cline: Agent = {
  name: 'Cline',
  package: 'cline',
  program: `@cline/cli-${platform}/bin/cline`,
  env: () => ({ CLINE_NO_AUTO_UPDATE: '1', CLINE_TELEMETRY_DISABLED: '1', CLINE_SESSION_BACKEND_MODE: 'local' }),
  login: ({ origin, key, model }) => ['auth', '-p', 'openai', '-k', key, '-m', model, '-b', `${origin}/v1`],
  // It resumes a session in a terminal only: each prompt begins a new one.
  prompt: ({ model }, prompt) => ['-P', 'openai', '-m', model, `${prompt} Please do.`],
  compaction: { said: 'overflow-recovery-compacted' },
  cut: 'early',
  models: ['gpt-6-luna'],
}

const continueCli: Agent = {
  name: 'Continue',
  package: '@continuedev/cli',
  program: '.bin/cn',
  env: setup => ({ ...headgateKey(setup), CONTINUE_TELEMETRY_ENABLED: '0' }),
  files: setup => ({
    '.continue/config.yaml': snippetFor('Continue', setup),
    '.continue/.env': `HEADGATE_API_KEY=${setup.key}\n`,
  }),
  prompt: ({ home }, prompt, isResumed) => [
    '-p',
    '--auto',
    '--config',
    `${home}/.continue/config.yaml`,
    ...(isResumed ? ['--resume'] : []),
    prompt,
  ],
  compaction: { contextTokens: 60_000 },
  uncompacted: { model: 'claude-sonnet-5-5', reason: 'it does not count the cached part of a Claude prompt' },
  models: ['gemini-3.5-flash'],
}

const qwen: Agent = {
  name: 'Qwen Code',
  package: '@qwen-code/qwen-code',
  program: '.bin/qwen',
  env: ({ origin, key, model }) => ({ OPENAI_API_KEY: key, OPENAI_BASE_URL: `${origin}/v1`, OPENAI_MODEL: model }),
  files: () => ({
    '.qwen/settings.json': JSON.stringify({
      privacy: { usageStatisticsEnabled: false },
      general: { disableAutoUpdate: true, disableUpdateNag: true, enableAutoUpdate: false },
      telemetry: { enabled: false },
    }),
  }),
  prompt: (_setup, prompt, isResumed) => [
    '--auth-type',
    'openai',
    '--yolo',
    ...(isResumed ? ['--continue'] : []),
    '-p',
    prompt,
  ],
  compaction: { prompt: '/compress' },
  models: ['auto'],
}

const copilot: Agent = {
  name: 'Copilot CLI',
  package: '@github/copilot',
  program: '.bin/copilot',
  env: ({ origin, key, model, contextTokens }) => ({
    COPILOT_PROVIDER_BASE_URL: `${origin}/v1`,
    COPILOT_PROVIDER_API_KEY: key,
    COPILOT_MODEL: model,
    COPILOT_PROVIDER_MAX_PROMPT_TOKENS: String(contextTokens),
    COPILOT_OFFLINE: 'true',
    COPILOT_AUTO_UPDATE: 'false',
  }),
  prompt: (_setup, prompt, isResumed) => [
    '-p',
    prompt,
    '--allow-all-tools',
    '--allow-all-paths',
    ...(isResumed ? ['--continue'] : []),
  ],
  compaction: { contextTokens: 16_000 },
  models: ['gpt-6-luna'],
}

export const agents: Agent[] = [claudeCode, codex, opencode, copilot, cline, continueCli, qwen, pi]
