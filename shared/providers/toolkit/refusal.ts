import { redactMessage } from '../../base/redact.ts'
import type { Protocol } from '../contract.ts'
import { type FailureReason, ProviderError } from '../provider-error.ts'
import type { Headers } from './json-fields.ts'
import { retryAfterMs } from './retry-after.ts'

const maxMessage = 1_000
const maxRead = 64 * 1024

/** Shown instead of provider messages that concern our account: OpenAI's 401 repeats part of the key. */
export const fixedMessages: { [R in FailureReason]?: string } = {
  auth: "The provider refused the gateway's credentials. Tell the operator of this service.",
  quota: "The gateway's account at the provider has no credit left. Tell the operator of this service.",
}

/** What provider messages may contain and must not be shown: signed URL queries, whole files, credentials, account ids. */
const secrets: [RegExp, string][] = [
  [/(https?:\/\/[^\s"'?]{1,500})\?[^\s"']*/g, '$1'],
  [/data:[\w/+.-]{1,80};base64,[\w+/=]*/g, '[data]'],
  [/\b(?:sk[-_]|gsk_|xai-|AIza|r8_|msy_|mhk_|whsec_|key_|org-|proj_)[\w*.-]{6,}/g, '[redacted]'],
  [/\bBearer \S+|\b(?:Key|Token) [\w.:-]{16,}/g, '[redacted]'],
]

/** A provider's message without signed URL queries, whole files, credentials and ids of our account. */
export function redactProviderMessage(message: string): string {
  const shown = secrets.reduce((text, [secret, instead]) => text.replace(secret, instead), message.slice(0, maxRead))
  return redactMessage(shown)
}

/** A provider's refusal with its reason and message; `status` is null for work that failed after its start. */
export function refusal(
  reason: FailureReason,
  message: string,
  status: number | null = null,
  headers: Headers = {},
): ProviderError {
  const shownMessage = redactProviderMessage(message)
  const fallback = status ? `The provider answered with status ${status}.` : 'The provider reported a failure.'
  const delayMs = retryAfterMs(headers)
  return new ProviderError(reason, fixedMessages[reason] ?? (shownMessage.slice(0, maxMessage) || fallback), {
    ...(status !== null && { status }),
    ...(delayMs !== null && { retryAfterMs: delayMs }),
  })
}

/**
 * What clouds say of a model that a region or an account does not have, with statuses of other faults. Amazon Bedrock, in all its APIs: "The
 * provided model identifier is invalid." (anomalyco/opencode#16747), "Invocation of model ID … with on-demand throughput isn’t
 * supported." (anthropics/anthropic-sdk-python#894), "model `…` isn't supported on this route" (AWS' page on the Responses API), "You
 * don't have access to the model with the specified model ID." (andrewyng/aisuite#174), "Model access is denied due to …"
 * (ministryofjustice/modernisation-platform-environments#18302), "The model '…' does not support the '/v1/chat/completions' API"
 * (enricoros/big-AGI#1167). Vertex AI: "Project … is not allowed to use Publisher Model …"
 * (langchain-ai/langchain-google#593), "Malformed publisher model name" (Ikalus1988/MisakaNet#1472), "Publisher Model … is not servable
 * in region …" with the status of a failed precondition. Amazon Bedrock also says so of an account without access in a region: "Operation not
 * allowed" (langgenius/dify#7488, kirodotdev/Kiro#11191), "Your account is not authorized to invoke this API operation."
 * (aws-samples/amazon-bedrock-audio-summarizer#3). OpenAI of a model, its streams or its summaries of reasoning, which it gives to verified
 * organisations only: "Your organization must be verified to …" (continuedev/continue#8209, #9607, receptron/mulmocast-app#1090). Alibaba:
 * "Access to model denied." (QwenLM/qwen-code#9605). Other models of such an account are served, so its key stays in use.
 */
const absentModel =
  /model identifier is invalid|on-demand throughput isn.t supported|isn.t supported on this route|does not support the '\/v1\/\S+' api|access to the model with the specified model id|^model access is denied|not allowed to use publisher model|malformed publisher model name|is not servable in region|^operation not allowed\.?$|account is not authorized to invoke this api operation|^your organization must be verified to |^access to model denied\b/i

/** Whether a provider's message says that it does not serve the model to this account. */
export function isAbsentModel(message: string): boolean {
  return absentModel.test(message)
}

/**
 * Statuses with the same meaning at every provider. 405 comes from a server that does not offer the API at its address
 * (QwenLM/qwen-code#166, vllm-project/vllm#7463), 410 from one that no longer does (langchain4j/langchain4j#4146), 451 where a model
 * is not available in the gateway's region (zed-industries/zed#33603, Kilo-Org/kilocode#10872), 499 from proxies whose server was
 * cut off, and from Google under load (google-gemini/gemini-cli#20309).
 */
const reasonsByStatus: ReadonlyMap<number, FailureReason> = new Map([
  [401, 'auth'],
  [402, 'quota'],
  [403, 'auth'],
  [404, 'model_unavailable'],
  [405, 'model_unavailable'],
  [408, 'server_error'],
  [409, 'server_error'],
  [410, 'model_unavailable'],
  [425, 'server_error'],
  [429, 'rate_limited'],
  [451, 'model_unavailable'],
  [499, 'server_error'],
  [503, 'overloaded'],
  [529, 'overloaded'],
])

/** The usual meaning of a status. */
export function reasonOfStatus(status: number): FailureReason {
  return (
    reasonsByStatus.get(status) ??
    (status >= 500 ? 'server_error' : status >= 400 ? 'invalid_request' : 'invalid_response')
  )
}

/**
 * The error of a response outside 2xx, as its protocol classifies it. A body that no protocol has foreseen is a refusal with its
 * status: what a classification throws must not leave a call without an end.
 */
export function classifyRefusal(
  protocol: Pick<Protocol, 'failure'>,
  status: number,
  headers: Headers,
  body: string,
): ProviderError {
  try {
    return protocol.failure(status, headers, body)
  } catch (cause) {
    return new ProviderError(reasonOfStatus(status), `The provider answered with status ${status}.`, { status, cause })
  }
}
