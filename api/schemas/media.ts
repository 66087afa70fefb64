import { z } from 'zod'

/** Response schemas of synchronous media routes. */

const count = z.int().min(0)
const usd = z.number().describe('USD charged for this request.')

const image = {
  url: z.string().optional().describe('Serves the image without a key until results expire.'),
  b64_json: z.string().optional().describe('Base64-encoded image.'),
  revised_prompt: z.string().optional().describe('The prompt as revised by the provider.'),
  media_type: z.string().describe('Such as `image/png`.'),
  width: z.int(),
  height: z.int(),
}

const imageUsage = z
  .strictObject({
    input_tokens: count.optional(),
    input_tokens_details: z.strictObject({ text_tokens: count, image_tokens: count }).optional(),
    output_tokens: count.optional(),
    output_tokens_details: z.strictObject({ text_tokens: count, image_tokens: count }).optional(),
    total_tokens: count.optional(),
    prompt_tokens: count.optional().describe('Alias of `input_tokens`.'),
    completion_tokens: count.optional().describe('Alias of `output_tokens`.'),
    cost: usd,
  })
  .meta({ id: 'ImageUsage' })

const appearance = {
  size: z.string().describe('In pixels; `auto` in a preview of an image whose size is not known yet.'),
  quality: z.string(),
  background: z.string(),
  output_format: z.string(),
}

export const imagesAnswer = z
  .strictObject({
    created: z.int().describe('Unix seconds.'),
    ...appearance,
    model: z.string(),
    provider: z.string(),
    data: z.array(z.strictObject(image).meta({ id: 'Image' })),
    usage: imageUsage,
  })
  .meta({ id: 'ImageList' })

const failedEvent = z
  .strictObject({
    type: z.literal('error'),
    error: z.strictObject({
      message: z.string(),
      type: z.string(),
      code: z.string(),
      param: z.string().nullable(),
      metadata: z.record(z.string(), z.unknown()).optional(),
    }),
  })
  .meta({ id: 'ErrorEvent', description: 'Sent as the last event of an interrupted stream.' })

/** The data of each event of streamed images: previews, then one event per image, the last with the total cost. */
export const imageEvent = z
  .discriminatedUnion('type', [
    z.strictObject({
      type: z.enum(['image_generation.completed', 'image_edit.completed']),
      created_at: z.int(),
      ...image,
      ...appearance,
      model: z.string().optional(),
      provider: z.string().optional(),
      usage: imageUsage.optional(),
    }),
    z.strictObject({
      type: z.enum(['image_generation.partial_image', 'image_edit.partial_image']),
      created_at: z.int(),
      b64_json: z.string(),
      partial_image_index: count,
      ...appearance,
    }),
    failedEvent,
  ])
  .meta({ id: 'ImageEvent' })

const seconds = z.number().describe('Seconds from the start.')

const transcriptUsage = z
  .discriminatedUnion('type', [
    z
      .strictObject({ type: z.literal('duration'), seconds: z.number().describe('The measured length.'), cost: usd })
      .meta({ id: 'TranscriptDurationUsage' }),
    z
      .strictObject({
        type: z.literal('tokens'),
        input_tokens: count,
        input_token_details: z.strictObject({ text_tokens: count, audio_tokens: count }),
        output_tokens: count,
        total_tokens: count,
        estimated: z.boolean().optional(),
        cost: usd,
      })
      .meta({ id: 'TranscriptTokenUsage' }),
  ])
  .meta({ id: 'TranscriptUsage' })

const logprobs = z
  .array(z.strictObject({ token: z.string(), logprob: z.number(), bytes: z.array(count).nullable() }))
  .optional()
  .describe('With `include: ["logprobs"]`.')

/** A segment with its speaker: of `diarized_json`, and as an event. */
const diarizedSegment = {
  type: z.literal('transcript.text.segment'),
  id: z.string(),
  start: seconds,
  end: seconds,
  text: z.string(),
  speaker: z.string().describe('The name of a known speaker, otherwise `A`, `B` …'),
}

/** `json`, `verbose_json` and `diarized_json`. */
export const transcriptAnswer = z
  .strictObject({
    text: z.string(),
    usage: transcriptUsage,
    task: z.enum(['transcribe', 'translate']).optional(),
    language: z.string().optional(),
    duration: z.number().optional(),
    logprobs,
    segments: z
      .array(
        z.union([
          z.strictObject(diarizedSegment),
          z.looseObject({ id: count, start: seconds, end: seconds, text: z.string(), speaker: z.string().optional() }),
        ]),
      )
      .optional(),
    words: z.array(z.strictObject({ word: z.string(), start: seconds, end: seconds })).optional(),
  })
  .meta({ id: 'Transcript' })

/** The data of each event of a streamed transcript. */
export const transcriptEvent = z
  .discriminatedUnion('type', [
    z
      .strictObject({
        type: z.literal('transcript.text.delta'),
        delta: z.string(),
        logprobs,
        segment_id: z.string().optional(),
      })
      .meta({ id: 'TranscriptDeltaEvent' }),
    z.strictObject(diarizedSegment).meta({ id: 'TranscriptSegmentEvent' }),
    z
      .strictObject({ type: z.literal('transcript.text.done'), text: z.string(), logprobs, usage: transcriptUsage })
      .meta({ id: 'TranscriptDoneEvent' }),
    failedEvent,
  ])
  .meta({ id: 'TranscriptEvent' })

/** The data of each event of `stream_format: "sse"`. */
export const speechEvent = z
  .discriminatedUnion('type', [
    z
      .strictObject({
        type: z.literal('speech.audio.delta'),
        audio: z.string().describe('The next audio bytes, base64-encoded.'),
      })
      .meta({ id: 'SpeechDeltaEvent' }),
    z
      .strictObject({
        type: z.literal('speech.audio.done'),
        usage: z
          .strictObject({
            input_tokens: count.optional(),
            output_tokens: count.optional(),
            total_tokens: count.optional(),
            cost: usd,
          })
          .meta({ id: 'SpeechUsage' }),
      })
      .meta({ id: 'SpeechDoneEvent' }),
    failedEvent,
  ])
  .meta({ id: 'SpeechEvent' })

export const rankingAnswer = z
  .strictObject({
    id: z.string(),
    object: z.literal('list'),
    model: z.string(),
    results: z.array(
      z.strictObject({
        index: z.int().min(0).describe('The place of the document in the request.'),
        relevance_score: z.number(),
        document: z.record(z.string(), z.unknown()).optional().describe('With `return_documents`.'),
      }),
    ),
    data: z
      .array(
        z.strictObject({
          index: z.int().min(0),
          relevance_score: z.number(),
          document: z.string().optional().describe('With `return_documents`: the text that was ranked.'),
        }),
      )
      .describe('The same results as Voyage’s clients read them.'),
    meta: z.strictObject({
      api_version: z.strictObject({ version: z.string() }),
      billed_units: z.strictObject({ search_units: count.optional(), input_tokens: count.optional() }),
    }),
    usage: z.strictObject({
      prompt_tokens: count,
      completion_tokens: z.literal(0),
      total_tokens: count.describe('As the provider states them, otherwise estimated.'),
      search_units: count.optional(),
      cost: usd,
    }),
  })
  .meta({ id: 'Ranking' })

export const moderationAnswer = z
  .strictObject({
    id: z.string(),
    model: z.string(),
    results: z.array(
      z
        .looseObject({
          flagged: z.boolean(),
          categories: z.record(z.string(), z.boolean().nullable()),
          category_scores: z.record(z.string(), z.number()).optional(),
          category_applied_input_types: z.record(z.string(), z.array(z.string())).optional(),
        })
        .meta({ id: 'ModerationResult' }),
    ),
  })
  .meta({ id: 'Moderation' })

const annotation = z.string().nullish().describe('JSON by the schema of the request, as a text.')

export const ocrAnswer = z
  .strictObject({
    pages: z.array(
      z
        .looseObject({
          index: count.describe('The number of the page, from 0.'),
          markdown: z.string(),
          images: z
            .array(z.looseObject({ id: z.string(), image_base64: z.string().nullish(), image_annotation: annotation }))
            .optional(),
          dimensions: z.looseObject({ dpi: count, height: count, width: count }).nullish(),
        })
        .meta({ id: 'OcrPage' })
        .describe('A page as the provider returns it.'),
    ),
    model: z.string(),
    document_annotation: annotation,
    usage_info: z.strictObject({
      pages_processed: count,
      pages_processed_annotation: count.optional().describe('The pages whose annotation is charged.'),
      doc_size_bytes: count.nullable(),
      cost: usd,
    }),
  })
  .meta({ id: 'OcrResult' })
