import { checkPictures, deliverImages } from '../../shared/instant/images.ts'
import { runInstant } from '../../shared/instant/run.ts'
import { type ImageRequest, imageRequest, mostImageReferences } from '../../shared/kinds/image.ts'
import { generationHeaders } from '../answer-headers.ts'
import { type Direct, direct, type Endpoint, type Form } from '../endpoint.ts'
import { imagesAnswer } from '../instant-answers.ts'
import { addressesOf, typed } from '../middleware/form.ts'
import { instantModels } from './instant.ts'
import { modelErrors } from './model-errors.ts'

async function draw(request: Direct<ImageRequest>): Promise<void> {
  const { services, known, body, requestId, client, wide } = request
  const report = await runInstant(
    services,
    {
      kind: 'image',
      known,
      requestId,
      body,
      stream: false,
      events: body.stream === true,
      dropped: body.style == null ? [] : ['style'],
      check: references => checkPictures(services, references),
      deliver: delivery => deliverImages(delivery, body),
    },
    client,
  )
  Object.assign(wide, report)
}

/** OpenAI's multipart form: the images to edit are files. */
const editForm: Form = {
  files: [
    { name: 'image', required: true, most: mostImageReferences, description: 'The images to edit; also `image[]`.' },
    { name: 'mask', required: false, description: 'A PNG whose transparent area is edited.' },
  ],
  names: { input_references: 'image' },
  example: { model: 'gpt-image-1.5', image: 'cat.png', prompt: 'Give it a hat' },
  passing: true,
  async toBody(fields, uploads, services) {
    const [mask] = await addressesOf(services, uploads, 'mask')
    return {
      ...typed(fields, { numbers: ['n', 'output_compression', 'partial_images', 'seed'], flags: ['stream'] }),
      input_references: await addressesOf(services, uploads, 'image'),
      ...(mask && { mask }),
    }
  },
}

const common = {
  method: 'post',
  tag: 'Images',
  access: { scope: '*' },
  body: imageRequest,
  answers: { 200: { description: 'The images.', schema: imagesAnswer, headers: generationHeaders } },
  errors: [...modelErrors, 'url_not_allowed', 'file_too_large', 'quota_exceeded'],
  handle: draw,
} as const satisfies Partial<Endpoint>

const text =
  'From a prompt, or from `input_references` to edit. Billed per image or per token, as the model is priced; an image that cannot be decoded is not billed.'

export const imageRoutes: Endpoint[] = [
  direct({
    ...common,
    path: '/v1/images',
    operationId: 'createImage',
    summary: 'Create images',
    description: text,
    example: { model: 'gpt-image-1.5', prompt: 'A fox in the snow', size: '1024x1024' },
    form: { ...editForm, jsonFirst: true },
  }),
  direct({
    ...common,
    path: '/v1/images/generations',
    operationId: 'createImageGeneration',
    summary: 'Create images (OpenAI)',
    example: { model: 'gpt-image-1.5', prompt: 'A fox in the snow', n: 1 },
    description: 'The name that OpenAI’s SDKs know `POST /v1/images` by.',
  }),
  direct({
    ...common,
    path: '/v1/images/edits',
    operationId: 'createImageEdit',
    summary: 'Create image edits (OpenAI)',
    example: { model: 'gpt-image-1.5', prompt: 'Give it a hat', input_references: ['https://example.com/cat.png'] },
    description: 'The name that OpenAI’s SDKs know `POST /v1/images` by, with its multipart form.',
    form: editForm,
  }),
  instantModels('image', 'Images', 'listImageModels', 'List image models'),
]
