import { type ImageInput, image, imageRequest } from '../../../shared/kinds/image.ts'
import { gemini } from '../../../shared/providers/adapters/gemini/protocol.ts'
import type { Source } from '../../../shared/providers/contract.ts'
import { geminiError } from '../../emulators/gemini.ts'
import { interactionError } from '../../emulators/gemini-interactions.ts'
import { startGeminiMedia } from '../../emulators/gemini-media.ts'
import { sourceOf } from '../../support/jobs/sources.ts'
import { conforms, syncCallOf } from '../../support/media/adapter.ts'
import { png } from '../../support/media/png.ts'
import { musicCall, speechCall } from '../../support/providers/gemini-sound.ts'
import { test } from '../../support/test.ts'

// What every adapter of its kind must do, done by Gemini's.

const subject = { provider: 'gemini', protocol: gemini, start: startGeminiMedia } as const
const statuses = new Map([
  [400, 'INVALID_ARGUMENT'],
  [401, 'UNAUTHENTICATED'],
  [403, 'PERMISSION_DENIED'],
  [404, 'NOT_FOUND'],
  [429, 'RESOURCE_EXHAUSTED'],
  [500, 'INTERNAL'],
  [503, 'UNAVAILABLE'],
])
const error = (status: number, message: string) => geminiError(status, statuses.get(status) ?? 'UNKNOWN', message)
const errorInWords = (status: number, message: string) => interactionError(status, 'error', message)

function imageCall(model: string, fields: object = {}, sources: Record<string, Source> = {}) {
  const call = syncCallOf<'image'>('gemini', model, {} as ImageInput, sources)
  const body = imageRequest.parse({ prompt: 'A heron', ...fields })
  return { ...call, input: image.input(body, call.target.model, null) }
}
const reference = sourceOf('https://files.example/face.png', 'image/png', null, Buffer.from(png(4)))

conforms(test, {
  ...subject,
  name: 'Gemini images',
  kind: 'image',
  error,
  call: () => imageCall('gemini-3.1-flash-image', { resolution: '512' }),
  others: {
    edited: () =>
      imageCall(
        'gemini-2.5-flash-image',
        { input_references: ['https://files.example/face.png'] },
        {
          'input_references.0': reference,
        },
      ),
    'of a shape': () => imageCall('gemini-3-pro-image', { size: '1024x1536' }),
  },
})
conforms(test, {
  ...subject,
  name: 'Gemini speech by interactions',
  kind: 'speech',
  error: errorInWords,
  call: () => speechCall(),
  others: {
    'as samples': () => speechCall({ format: 'pcm' }),
    'with instructions': () => speechCall({ instructions: 'Whisper' }),
  },
})
conforms(test, {
  ...subject,
  name: 'Gemini speech by generateContent',
  kind: 'speech',
  error,
  call: () => speechCall({}, 'generateContent'),
  others: { 'as samples': () => speechCall({ format: 'pcm' }, 'generateContent') },
})
conforms(test, {
  ...subject,
  name: 'Lyria',
  kind: 'music',
  error: errorInWords,
  call: () => musicCall(),
  others: { 'without voices': () => musicCall({ instrumental: true }) },
})
