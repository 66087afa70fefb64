import type { ErrorCode } from '../../shared/base/errors.ts'
import { answersError } from '../support/api/edge.ts'
import { audio, clip, image } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

let video: string

const gateway = useGateway(test)
const account = use(test, () => gateway.account())
test.before(async () => {
  video = await clip(3)
})

type Case = [what: string, path: string, body: () => object, code: ErrorCode, param: string | null]
const videos = (body: object): object => ({ prompt: 'x', ...body })

const cases: Case[] = [
  ['no prompt', '/v1/videos', () => ({ model: 'veo-3.1' }), 'missing_field', 'prompt'],
  ['a NUL in the prompt', '/v1/videos', () => ({ prompt: 'a\0b' }), 'invalid_request', 'prompt'],
  ['a NUL in a text', '/v1/videos', () => videos({ negative_prompt: '\0' }), 'invalid_request', 'negative_prompt'],
  ['a NUL in the prompt', '/v1/meshes', () => ({ prompt: 'a\0b' }), 'invalid_request', 'prompt'],
  ['a NUL in a text', '/v1/meshes', () => ({ prompt: 'x', texture_prompt: '\0' }), 'invalid_request', 'texture_prompt'],
  ['an unknown field', '/v1/videos', () => videos({ colour: 'red' }), 'unknown_field', 'colour'],
  ['an unknown model', '/v1/videos', () => videos({ model: 'nope' }), 'model_not_found', 'model'],
  ['a model of another route', '/v1/videos', () => videos({ model: 'meshy-6' }), 'model_not_found', 'model'],
  ['a disabled model', '/v1/videos', () => videos({ model: 'wan-2.6' }), 'model_not_found', 'model'],
  [
    'seconds the model has not',
    '/v1/videos',
    () => videos({ model: 'veo-3.1', seconds: 5 }),
    'unsupported_capability',
    'seconds',
  ],
  ['seconds that are no number', '/v1/videos', () => videos({ seconds: 'long' }), 'invalid_request', 'seconds'],
  ['a negative length', '/v1/videos', () => videos({ seconds: -4 }), 'invalid_request', 'seconds'],
  [
    'size beside resolution',
    '/v1/videos',
    () => videos({ size: '1280x720', resolution: '720p' }),
    'invalid_request',
    'resolution',
  ],
  [
    'a size the model has not',
    '/v1/videos',
    () => videos({ model: 'veo-3.1', size: '640x640' }),
    'unsupported_capability',
    'size',
  ],
  [
    'a resolution the model has not',
    '/v1/videos',
    () => videos({ model: 'veo-3.1', resolution: '4k' }),
    'unsupported_capability',
    'resolution',
  ],
  [
    'an aspect ratio the model has not',
    '/v1/videos',
    () => videos({ model: 'veo-3.1', aspect_ratio: '1:1' }),
    'unsupported_capability',
    'aspect_ratio',
  ],
  [
    'a first frame for a text model',
    '/v1/videos',
    () => videos({ model: 'runway-gen4-aleph', start_image_url: image }),
    'unsupported_capability',
    'start_image_url',
  ],
  [
    'text alone for an image model',
    '/v1/videos',
    () => videos({ model: 'runway-gen4-turbo' }),
    'unsupported_capability',
    'prompt',
  ],
  [
    'a last frame alone',
    '/v1/videos',
    () => videos({ model: 'veo-3.1', end_image_url: image }),
    'missing_field',
    'start_image_url',
  ],
  [
    'a last frame the model has not',
    '/v1/videos',
    () => videos({ model: 'runway-gen4.5', start_image_url: image, end_image_url: image }),
    'unsupported_capability',
    'end_image_url',
  ],
  [
    'references to a model without',
    '/v1/videos',
    () => videos({ model: 'kling-v3-pro', input_references: [image] }),
    'unsupported_capability',
    'input_references',
  ],
  [
    'too many references',
    '/v1/videos',
    () => videos({ model: 'veo-3.1', input_references: Array(4).fill(image) }),
    'unsupported_capability',
    'input_references',
  ],
  [
    'references and a first frame',
    '/v1/videos',
    () => videos({ model: 'veo-3.1', start_image_url: image, input_references: [image] }),
    'unsupported_capability',
    'start_image_url',
  ],
  [
    'a length that the resolution has not',
    '/v1/videos',
    () => videos({ model: 'veo-3.1', resolution: '1080p', seconds: 4 }),
    'unsupported_capability',
    'seconds',
  ],
  [
    'silence from a model of sound',
    '/v1/videos',
    () => videos({ model: 'veo-3.1', audio: false }),
    'unsupported_capability',
    'audio',
  ],
  [
    'a length of references the model has not',
    '/v1/videos',
    () => videos({ model: 'veo-3.1', input_references: [image], seconds: 4 }),
    'unsupported_capability',
    'seconds',
  ],
  [
    'a motion without a character',
    '/v1/videos',
    () => ({ model: 'runway-act-two', input_video_url: video }),
    'unsupported_capability',
    'input_video_url',
  ],
  [
    'seconds where the motion has them',
    '/v1/videos',
    () => ({ model: 'runway-act-two', start_image_url: image, input_video_url: video, seconds: 5 }),
    'unsupported_capability',
    'seconds',
  ],
  [
    'a prompt where none is taken',
    '/v1/videos',
    () => videos({ model: 'runway-act-two', start_image_url: image, input_video_url: video }),
    'unsupported_capability',
    'prompt',
  ],
  [
    'sound from a silent model',
    '/v1/videos',
    () => videos({ model: 'runway-gen4.5', audio: true }),
    'unsupported_capability',
    'audio',
  ],
  [
    'a seed the model does not take',
    '/v1/videos',
    () => videos({ model: 'veo-3.1', seed: 5 }),
    'unsupported_capability',
    'seed',
  ],
  [
    'an image that is a video',
    '/v1/videos',
    () => videos({ model: 'veo-3.1', start_image_url: video }),
    'unsupported_media_type',
    'start_image_url',
  ],
  [
    'an image that is nothing',
    '/v1/videos',
    () => videos({ model: 'veo-3.1', start_image_url: 'data:image/png;base64,AAAA' }),
    'unsupported_media_type',
    'start_image_url',
  ],
  ['a webhook that is no URL', '/v1/videos', () => videos({ webhook_url: 'hook' }), 'url_not_allowed', 'webhook_url'],
  [
    'a webhook on this machine',
    '/v1/videos',
    () => videos({ webhook_url: 'https://127.0.0.1/hook' }),
    'url_not_allowed',
    'webhook_url',
  ],
  [
    'too much metadata',
    '/v1/videos',
    () => videos({ metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, 'v'])) }),
    'invalid_request',
    'metadata',
  ],
  ['metadata that is no text', '/v1/videos', () => videos({ metadata: { a: 1 } }), 'invalid_request', 'metadata.a'],
  ['lips without a face', '/v1/lipsync', () => ({ audio_url: audio(1) }), 'missing_field', 'video_url'],
  ['lips without sound', '/v1/lipsync', () => ({ video_url: video }), 'missing_field', 'audio_url'],
  [
    'a face twice',
    '/v1/lipsync',
    () => ({ video_url: video, image_url: image, audio_url: audio(1) }),
    'invalid_request',
    'video_url',
  ],
  [
    'an image for a model of videos',
    '/v1/lipsync',
    () => ({ model: 'lipsync-2', image_url: image, audio_url: audio(1) }),
    'unsupported_capability',
    'image_url',
  ],
  [
    'audio beyond the model’s length',
    '/v1/lipsync',
    () => ({ model: 'omnihuman-1.5', image_url: image, audio_url: audio(31) }),
    'unsupported_capability',
    'audio_url',
  ],
  [
    'audio that cannot be measured',
    '/v1/lipsync',
    () => ({ video_url: video, audio_url: 'data:audio/wav;base64,UklGRiQAAABXQVZFZm10IA==' }),
    'invalid_request',
    'audio_url',
  ],
  [
    'a swap without a face',
    '/v1/face-swap',
    () => ({ video_url: video, source_face_consent: true }),
    'missing_field',
    'face_image_url',
  ],
  [
    'a swap without consent',
    '/v1/face-swap',
    () => ({ video_url: video, face_image_url: image }),
    'consent_required',
    'source_face_consent',
  ],
  [
    'an avatar twice',
    '/v1/avatars/videos',
    () => ({ avatar_id: 'a', image_url: image, audio_url: audio(1) }),
    'invalid_request',
    'image_url',
  ],
  ['no avatar', '/v1/avatars/videos', () => ({ audio_url: audio(1) }), 'missing_field', 'avatar_id'],
  [
    'a script without a voice',
    '/v1/avatars/videos',
    () => ({ avatar_id: 'a', script: 'Hello' }),
    'missing_field',
    'voice_id',
  ],
  [
    'a voice without a script',
    '/v1/avatars/videos',
    () => ({ avatar_id: 'a', audio_url: audio(1), voice_id: 'v' }),
    'invalid_request',
    'voice_id',
  ],
  ['nothing to say', '/v1/avatars/videos', () => ({ avatar_id: 'a' }), 'missing_field', 'script'],
  ['a mesh of nothing', '/v1/meshes', () => ({}), 'missing_field', 'prompt'],
  ['a mesh of two things', '/v1/meshes', () => ({ prompt: 'x', image_url: image }), 'invalid_request', 'image_url'],
  ['a mesh of no images', '/v1/meshes', () => ({ image_urls: [] }), 'invalid_request', 'image_urls'],
  [
    'too many views',
    '/v1/meshes',
    () => ({ model: 'meshy-6', image_urls: Array(5).fill(image) }),
    'unsupported_capability',
    'image_urls',
  ],
  [
    'text for a model of images',
    '/v1/meshes',
    () => ({ model: 'trellis', prompt: 'x' }),
    'unsupported_capability',
    'prompt',
  ],
  [
    'an option the model has not',
    '/v1/meshes',
    () => ({ model: 'trellis', image_url: image, pbr: true }),
    'unsupported_capability',
    'pbr',
  ],
]

for (const [what, path, body, code, param] of cases) {
  test(`${code} for ${what}: ${path}`, async t => {
    const before = await gateway.services.db.job.count()
    await answersError(t, await gateway.fetch(path, { key: account.test, body: body() }), code, param)
    t.is(await gateway.services.db.job.count({ where: { organisationId: account.organisationId } }), before)
  })
}

test('403 model_not_allowed outside the allowlist, and the first allowed model without a name', async t => {
  const key = await gateway.key(account.organisationId, 'test', { model_allowlist: ['runway-gen4.5', 'gpt-5.6-luna'] })
  await answersError(
    t,
    await gateway.fetch('/v1/videos', { key, body: { model: 'veo-3.1', prompt: 'x' } }),
    'model_not_allowed',
    'model',
  )
})

test('503 no_provider_available for a live key without a configured provider', async t => {
  await answersError(
    t,
    await gateway.fetch('/v1/videos', { key: account.live, body: { prompt: 'x' } }),
    'no_provider_available',
  )
})

test('400 that names the values of a field that the model accepts', async t => {
  for (const [path, body, param, values] of [
    ['/v1/videos', videos({ model: 'veo-3.1', seconds: 5 }), 'seconds', '4, 6, 8'],
    ['/v1/videos', videos({ model: 'veo-3.1', resolution: '480p' }), 'resolution', '720p, 1080p'],
  ] as const) {
    const { message } = await answersError(
      t,
      await gateway.fetch(path, { key: account.test, body }),
      'unsupported_capability',
      param,
    )
    t.is(message, `veo-3.1 accepts only these values of \`${param}\`: ${values}.`)
  }
})

test('202 for a resolution in capitals', async t => {
  const { test: key } = await gateway.account()
  const body = videos({ model: 'veo-3.1', resolution: '1080P', seconds: 8 })
  const response = await gateway.fetch('/v1/videos', { key, body })
  t.is(response.status, 202, await response.text())
})

test('400 with `model` where the allowlist has no model of the route', async t => {
  const narrow = { model_allowlist: ['gpt-5.6-luna'] }
  const keys = [
    await gateway.key(account.organisationId, 'test', narrow),
    await gateway.key(account.organisationId, 'live', narrow),
  ]
  for (const key of keys) {
    for (const [path, body] of [
      ['/v1/videos', { prompt: 'x' }],
      ['/v1/images', { prompt: 'x' }],
      ['/v1/audio/sfx', { prompt: 'x' }],
    ] as const) {
      const { message } = await answersError(t, await gateway.fetch(path, { key, body }), 'invalid_request', 'model')
      t.regex(message, /`gpt-5.6-luna`/)
    }
  }
})
