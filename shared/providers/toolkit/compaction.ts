import { GatewayError } from '../../base/errors.ts'
import type { CompactionItem } from '../../kinds/responses.ts'
import type { Call } from '../contract.ts'
import { isEnvelope } from './reasoning-envelope.ts'

// A conversation that was compacted by a model without an own format for it: its summary, sealed for the client to hand
// back. Unlike reasoning state, any model can continue it.

const prefix = 'compaction '

/** What a model is asked instead of an answer. */
export const compactionPrompt = `Summarise the conversation so far. Your summary replaces it: whoever goes on with the work sees the summary and no other part of the conversation, and has the same tools.

Write down, without commenting on this request:
- what the user wants, with all instructions and preferences that still hold, in the user's words where the wording matters;
- what was done and found, with exact names, paths, commands, values and errors;
- which decisions were made, and why;
- what remains to be done, and the next step.

Call no tool.`

/** The text of a summary for the model that goes on with it. */
function toldSummary(summary: string): string {
  return `<conversation-summary>\n${summary}\n</conversation-summary>\nThe conversation until here was replaced by this summary. Go on from it.`
}

/** Seals a summary. Throws a GatewayError while the signing secret cannot be read. */
export function sealSummary({ target, reasoning }: Call<'responses'>, summary: string): string {
  const { provider, model } = target
  const state = { provider: provider.name, credentialId: null, model: model.id, state: prefix + summary }
  const envelope = reasoning?.sealer.seal(state) ?? null
  if (envelope !== null) return envelope
  throw new GatewayError('service_unavailable', 'The summary cannot be sealed. Try again shortly.')
}

/**
 * What a compaction item of the gateway's tells the model. Throws a GatewayError 400 that names the item if a provider made
 * it, which only that one can read, or if it was changed or belongs to another organisation.
 */
export function summaryIn({ encrypted_content: state }: CompactionItem, param: string, call: SummaryCall): string {
  if (!isEnvelope(state)) {
    const message =
      'This model takes no item of the type compaction that another provider made: only its models can read it.'
    throw new GatewayError('unsupported_capability', message, { param: `${param}.type` })
  }
  // Nothing is opened to find out whether a request can be translated.
  if (!call.reasoning) return toldSummary('')
  const opened = call.reasoning.sealer.open(state)?.state
  if (!opened?.startsWith(prefix))
    throw new GatewayError('invalid_request', 'The compaction cannot be read.', { param: `${param}.encrypted_content` })
  return toldSummary(opened.slice(prefix.length))
}

type SummaryCall = Pick<Call<'responses'>, 'reasoning'>
