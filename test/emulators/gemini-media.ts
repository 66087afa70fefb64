import sharp from 'sharp'
import { sound } from '../support/media/sounds.ts'
import { Emulator, events, json, type Recorded, type Reply } from './emulator.ts'
import { countTokens, geminiError, invalidApiKey, tokenCounts } from './gemini.ts'
import { interact, tokensPerSecond, voices } from './gemini-interactions.ts'
import { generateFault } from './gemini-rules.ts'
import { type Json, unknownField } from './slow-work.ts'

/** What an image model draws: pixels by ratio at 1K, tiers with the tokens of an image, and the kind of file. */
type Painter = { pixels: Record<string, [number, number]>; tokens: Record<string, number>; format: 'png' | 'jpeg' }

const square: [number, number] = [1024, 1024]
const older: Painter['pixels'] = {
  '1:1': square,
  '2:3': [832, 1248],
  '3:2': [1248, 832],
  '3:4': [864, 1184],
  '4:3': [1184, 864],
  '4:5': [896, 1152],
  '5:4': [1152, 896],
  '9:16': [768, 1344],
  '16:9': [1344, 768],
  '21:9': [1536, 672],
}
const newer: Painter['pixels'] = {
  '1:1': square,
  '2:3': [848, 1264],
  '3:2': [1264, 848],
  '3:4': [896, 1200],
  '4:3': [1200, 896],
  '4:5': [928, 1152],
  '5:4': [1152, 928],
  '9:16': [768, 1376],
  '16:9': [1376, 768],
  '21:9': [1584, 672],
}
export const painters: Record<string, Painter> = {
  'gemini-2.5-flash-image': { pixels: older, tokens: { '1K': 1290 }, format: 'png' },
  'gemini-3.1-flash-image': {
    pixels: { ...newer, '1:4': [512, 2048], '4:1': [2048, 512], '1:8': [384, 3072], '8:1': [3072, 384] },
    tokens: { '512': 747, '1K': 1120, '2K': 1680, '4K': 2520 },
    format: 'jpeg',
  },
  'gemini-3-pro-image': { pixels: newer, tokens: { '1K': 1120, '2K': 1120, '4K': 2000 }, format: 'jpeg' },
}
const scales: Record<string, number> = { '512': 0.5, '1K': 1, '2K': 2, '4K': 4 }
const maxReferences = 14
/** What stands beside an image. */
export const caption = 'Here it is.'

/**
 * Google's Gemini API on a local port, under `/v1` and `/v1beta`, as far as it makes images and sound: `generateContent` of
 * image and of speaking models, and interactions.
 */
export function startGeminiMedia(port = 0): Promise<Emulator> {
  return Emulator.start(async (request, response) => {
    const reply = keyFault(request) ?? (await answerTo(request))
    return reply(request, response)
  }, port)
}

function keyFault({ headers }: Recorded): Reply | null {
  const key = headers['x-goog-api-key']
  if (!key) return geminiError(403, 'PERMISSION_DENIED', "Method doesn't allow unregistered callers.")
  return key === 'invalid' ? invalidApiKey : null
}

/** What the Gemini API answers for media, once the caller is known. */
export async function answerTo(request: Recorded): Promise<Reply> {
  const { method, path, body } = request
  if (method === 'POST' && /^\/v1(?:beta)?\/interactions$/.test(path)) return interact(request)
  const [, model = '', verb = ''] =
    /^\/v1(?:beta)?\/models\/([^/:]+):(generateContent|streamGenerateContent)$/.exec(path) ?? []
  const painter = painters[model]
  const speaks = /^gemini-[\d.]+-\w+(?:-preview)?-tts(?:-preview)?$/.test(model)
  if (method !== 'POST' || (!painter && !speaks))
    return geminiError(404, 'NOT_FOUND', `models/${model} is not found for API version v1beta, or is not supported.`)
  const fault = generateFault(model, body) ?? (painter ? paintFault(painter, body) : speechFault(body))
  if (fault !== null) return geminiError(400, 'INVALID_ARGUMENT', fault)
  if (painter) return json(200, await painted(model, painter, body))
  const steps = await spoken(body)
  if (verb === 'generateContent') return json(200, whole(steps))
  return events(steps.map(step => `data: ${JSON.stringify(step)}\r\n\r\n`))
}

function paintFault({ pixels, tokens }: Painter, { contents, generationConfig = {} }: Json): string | null {
  const { imageConfig = {}, responseModalities = ['TEXT', 'IMAGE'] } = generationConfig
  const stranger = unknownField(imageConfig, ['aspectRatio', 'imageSize', 'personGeneration'])
  if (stranger)
    return `Invalid JSON payload received. Unknown name "${stranger}" at 'generation_config.image_config': Cannot find field.`
  const { aspectRatio = '1:1', imageSize = '1K' } = imageConfig
  if (!Object.hasOwn(pixels, aspectRatio)) return `aspect_ratio ${aspectRatio} is not supported by this model.`
  if (!Object.hasOwn(tokens, imageSize)) return `image_size ${imageSize} is not supported by this model.`
  if (!responseModalities.includes('IMAGE')) return 'The model draws: response_modalities must have IMAGE.'
  const files = partsOf(contents).filter(({ inlineData }) => inlineData)
  if (files.some(({ inlineData }) => !/^image\/(?:png|jpeg|webp|heic|heif)$/.test(inlineData.mimeType)))
    return 'Unsupported MIME type of an image.'
  return files.length > maxReferences ? `At most ${maxReferences} images are supported.` : null
}

async function painted(model: string, painter: Painter, { contents, generationConfig }: Json): Promise<object> {
  const { aspectRatio = '1:1', imageSize = '1K' } = generationConfig?.imageConfig ?? {}
  const [width, height] = painter.pixels[aspectRatio]!.map(side => Math.floor((side * scales[imageSize]!) / 8) * 8)
  const background = { r: 40, g: 90, b: 160 }
  const image = sharp({ create: { width: width!, height: height!, channels: 3, background } })
  const data = (await image.toFormat(painter.format).toBuffer()).toString('base64')
  const drawn = { inlineData: { mimeType: `image/${painter.format}`, data } }
  const thinks = !model.startsWith('gemini-2')
  // The newer ones think in pictures, too.
  const draft = thinks ? [{ thought: true, inlineData: { mimeType: 'image/png', data: 'AAAA' } }] : []
  const parts = partsOf(contents)
  const [words, pictures] = [countTokens(parts.map(({ text = '' }) => text).join('')), files(parts)]
  const imageTokens = painter.tokens[imageSize]!
  const thoughts = thinks ? { thoughtsTokenCount: tokenCounts.thoughts } : {}
  return {
    candidates: [
      { content: { role: 'model', parts: [...draft, { text: caption }, drawn] }, finishReason: 'STOP', index: 0 },
    ],
    usageMetadata: {
      promptTokenCount: words + pictures,
      promptTokensDetails: [
        { modality: 'TEXT', tokenCount: words },
        { modality: 'IMAGE', tokenCount: pictures },
      ],
      candidatesTokenCount: countTokens(caption) + imageTokens,
      candidatesTokensDetails: [{ modality: 'IMAGE', tokenCount: imageTokens }],
      ...thoughts,
      totalTokenCount: words + pictures + countTokens(caption) + imageTokens + (thoughts.thoughtsTokenCount ?? 0),
    },
    modelVersion: model,
    responseId: 'gemini-emulated',
  }
}

function files(parts: Json[]): number {
  return parts.filter(({ inlineData }) => inlineData).length * tokenCounts.imageInput
}

function partsOf(contents: Json[]): Json[] {
  return contents.flatMap(({ parts }) => parts)
}

function speechFault({ generationConfig = {}, systemInstruction }: Json): string | null {
  if (systemInstruction) return 'Developer instruction is not enabled for this model'
  const { responseModalities = [], speechConfig } = generationConfig
  if (responseModalities.length !== 1 || responseModalities[0] !== 'AUDIO')
    return 'The requested combination of response modalities is not supported by the model.'
  const voice = speechConfig?.voiceConfig?.prebuiltVoiceConfig?.voiceName
  if (voice === undefined) return 'Request contains an invalid argument.'
  if (voices.includes(voice)) return null
  return `Voice name ${voice} is not supported. Allowed voice names are: ${voices.map(name => name.toLowerCase()).join(', ')}`
}

const pieceBytes = 9_601

/** Speech in pieces, the counts in the last. */
async function spoken({ contents }: Json): Promise<object[]> {
  const text = partsOf(contents)
    .map(part => part.text)
    .join('')
  const seconds = Math.max(0.2, text.length / 15)
  const bytes = await sound('pcm', seconds)
  const prompt = countTokens(text)
  const tokens = Math.ceil(seconds * tokensPerSecond)
  const counts = {
    promptTokenCount: prompt,
    promptTokensDetails: [{ modality: 'TEXT', tokenCount: prompt }],
    candidatesTokenCount: tokens,
    candidatesTokensDetails: [{ modality: 'AUDIO', tokenCount: tokens }],
    totalTokenCount: prompt + tokens,
  }
  const count = Math.ceil(bytes.length / pieceBytes)
  return Array.from({ length: count }, (_, i) => {
    const data = bytes.subarray(i * pieceBytes, (i + 1) * pieceBytes).toString('base64')
    const parts = [{ inlineData: { mimeType: 'audio/L16;codec=pcm;rate=24000', data } }]
    const isLast = i === count - 1
    const candidate = { content: { role: 'model', parts }, index: 0, ...(isLast && { finishReason: 'STOP' }) }
    return { candidates: [candidate], ...(isLast && { usageMetadata: counts }), responseId: 'gemini-emulated' }
  })
}

/** All pieces of an answer in one. */
function whole(steps: Json[]): object {
  const data = steps.map(({ candidates }) =>
    Buffer.from(candidates[0].content.parts[0].inlineData.data as string, 'base64'),
  )
  const last = steps.at(-1)
  const [candidate] = last.candidates
  const { mimeType } = candidate.content.parts[0].inlineData
  const parts = [{ inlineData: { mimeType, data: Buffer.concat(data).toString('base64') } }]
  return { ...last, candidates: [{ ...candidate, content: { role: 'model', parts } }] }
}
