import { z } from 'zod'

/** OpenRouter's shape. Unknown types are accepted: clients hand back what they were sent. */
export const reasoningDetail = z
  .looseObject({
    type: z.string().describe('`reasoning.text`, `reasoning.summary` or `reasoning.encrypted`.'),
    text: z.string().nullish().describe('The reasoning, of `reasoning.text`. In a stream, the next part of it.'),
    summary: z.string().nullish().describe('A summary of the reasoning, of `reasoning.summary`.'),
    data: z.string().nullish().describe('Reasoning that only its provider can read, sealed; of `reasoning.encrypted`.'),
    signature: z.string().nullish().describe('The provider’s proof of the text, sealed. In a stream, after the text.'),
    format: z.string().nullish().describe('The origin of the reasoning, such as `anthropic-claude-v1`.'),
    id: z.string().nullish(),
    index: z.number().nullish().describe('Which part of the reasoning this is: parts of a stream are joined by it.'),
  })
  .meta({ id: 'ReasoningDetail' })
export type ReasoningDetail = z.infer<typeof reasoningDetail>

/**
 * The signature of thinking without state: clients require one that is not empty. Its prefix tells that no provider
 * has to read it.
 */
export const emptyEnvelope = `hg1.${Buffer.from('{}').toString('base64url')}`

/** The fields of assistant messages in requests. */
export const earlierReasoning = {
  reasoning_content: z.string().nullish().describe('The reasoning of an earlier answer.'),
  reasoning_details: z
    .array(reasoningDetail)
    .max(16_384)
    .nullish()
    .describe('The `reasoning_details` of an earlier answer, unchanged: the model continues its reasoning.'),
}

/** The fields of messages and deltas in answers. */
export const shownReasoning = {
  reasoning_content: z.string().nullish().describe('The model’s reasoning, if the provider returns it.'),
  reasoning_details: z
    .array(reasoningDetail)
    .nullish()
    .describe('The reasoning with its state. Hand it back with the message: the model then continues its reasoning.'),
}
