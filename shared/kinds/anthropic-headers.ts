/**
 * The headers of Anthropic's API, and the names that `anthropic-beta` may have. A beta lets a request have a member, a
 * tool or a block; what that may do is decided in the tables of members, tools and blocks, so that every beta passes:
 * agents send the betas of their own version. A test compares both with the types of the newest SDK
 * (@anthropic-ai/sdk, resources/beta/beta.ts: AnthropicBeta).
 */

/** Headers that a provider of the format receives. */
export const sentHeaders: ReadonlySet<string> = new Set([
  'anthropic-version',
  'anthropic-beta',
  'anthropic-dangerous-direct-browser-access',
])

/** Headers that choose something in the operator's account: they are not sent, and named in `x-gateway-dropped`. */
export const accountHeaders: ReadonlySet<string> = new Set(['anthropic-user-profile-id', 'anthropic-workspace-id'])

/** Known betas by what they open: a member of the request's top level, or `tools`, `blocks`, `nothing` of this route. */
const betasByOpening: Record<string, string> = {
  thread: 'message-threads-2026-08-12',
  container: 'skills-2025-10-02',
  billing_policy: 'user-profiles-billing-2026-10-01',
  user_profile_id: 'user-profiles-2026-03-24 user-profiles-2026-08-18 user-profiles-2026-09-04',
  speed: 'fast-mode-2026-02-01',
  fallbacks: 'server-side-fallback-2026-06-01 server-side-fallback-2026-07-01',
  fallback_credit_token: 'fallback-credit-2026-06-01 fallback-credit-2026-07-01',
  diagnostics: 'cache-diagnosis-2026-04-07',
  mcp_servers: 'mcp-client-2025-04-04 mcp-client-2025-11-20 mcp-client-2026-09-15 mcp-tunnels-2026-06-22',
  compaction: 'compact-2026-09-04',
  context_management: 'context-management-2025-06-27 compact-2026-01-12',
  cache_control: 'extended-cache-ttl-2025-04-11 prompt-caching-2024-07-31 prompt-caching-scope-2026-01-05',
  tools: `code-execution-2025-05-22 advisor-tool-2026-03-01 computer-use-2024-10-22 computer-use-2025-01-24
    computer-use-2025-11-24 inline-tools-2026-09-15 token-efficient-tools-2025-02-19 advanced-tool-use-2025-11-20
    fine-grained-tool-streaming-2025-05-14 web-search-2025-03-05 web-fetch-2025-09-10 agent-memory-2026-07-22`,
  blocks: `files-api-2025-04-14 pdfs-2024-09-25 mid-conversation-tool-changes-2026-07-01
    mid-conversation-output-config-2026-07-01 mid-conversation-system-clear-at-2026-08-21 per-turn-control-2026-07-01`,
  // Longer prompts have their price in `above`; longer answers are reserved by `max_tokens`.
  messages: 'context-1m-2025-08-07',
  max_tokens: 'output-128k-2025-02-19 output-300k-2026-03-24',
  thinking: `interleaved-thinking-2025-05-14 dev-full-thinking-2025-05-14 thinking-token-count-2026-05-13
    thinking-display-updates-2026-08-18 thinking-binding-controls-2026-08-01 redact-thinking-2026-02-12`,
  output_config: 'structured-outputs-2025-11-13 task-budgets-2026-03-13 effort-2025-11-24',
  nothing: `message-batches-2024-09-24 token-counting-2024-11-01 model-context-window-exceeded-2025-08-26
    managed-agents-2026-04-01 dreaming-2026-04-21 ce-plugins-2026-09-01 spend-limit-reads-2026-09-26
    telemetry-destinations-2026-08-11 webhooks-2026-10-07 admin-user-sign-out-2026-10-08
    analytics-usage-cost-2026-08-24 experimental-claude-tag-2026-10-21 ce-user-management-2026-07-13
    ce-claude-code-managed-settings-2026-10-06 claude-code-20250219 oauth-2025-04-20`,
}

/** What each known beta opens. */
export const knownBetas: ReadonlyMap<string, string> = new Map(
  Object.entries(betasByOpening).flatMap(([opens, names]) =>
    names.split(/\s+/).map((name): [string, string] => [name, opens]),
  ),
)
