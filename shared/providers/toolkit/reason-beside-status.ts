import type { FailureReason } from '../provider-error.ts'

/**
 * What servers say with a status that means something else elsewhere: an account without money as 400, 403, 412 or 429, a text
 * that is refused as 403, a wrong key as 400. A 400 may quote the request, so there the words must begin the message; the
 * other statuses of the first rule are not about the request.
 */
const rules: readonly { statuses: ReadonlySet<number>; words: RegExp; reason: FailureReason }[] = [
  {
    // xAI (Anantys-oss/koan#2412, continuedev/continue#10373, #12670, tetsuo-ai/agenc-core#2483), Fireworks
    // (pollinations/pollinations#12136), Z.ai (musistudio/claude-code-router#1071, zhayujie/CowAgent#2910), Moonshot
    // (anomalyco/opencode#25458), BytePlus (coze-dev/coze-studio#2195).
    statuses: new Set([403, 412, 429]),
    words:
      /used all available credits|reach(?:ed|ing) (?:its|the) monthly spending limit|run out of credits|doesn.t have any credits|insufficient balance|overdue balance|余额不足/i,
    reason: 'quota',
  },
  {
    // xAI (continuedev/continue#10778).
    statuses: new Set([400]),
    words: /^incorrect api key provided/i,
    reason: 'auth',
  },
  {
    // xAI (UKGovernmentBEIS/inspect_ai#2267, theopenco/llmgateway#1785, Wei-Shaw/sub2api#5359), DeepSeek
    // (666ghj/BettaFish#108, deepseek-ai/DeepSeek-V2#30).
    statuses: new Set([400, 403]),
    words: /^content (?:violates usage guidelines|exists risk)/i,
    reason: 'content_filter',
  },
  {
    // OpenRouter, of the provider behind it (Davidvandijcke/coarse#183): another may serve the request.
    statuses: new Set([403]),
    words: /^the request is prohibited due to a violation of provider terms of service/i,
    reason: 'model_unavailable',
  },
]

const maxRead = 1_000

/** The reason that the words of a refusal give, where its status misleads; undefined if it does not. */
export function reasonBesideStatus(status: number | null, message: string): FailureReason | undefined {
  if (status === null) return undefined
  const beginning = message.slice(0, maxRead)
  return rules.find(({ statuses, words }) => statuses.has(status) && words.test(beginning))?.reason
}
