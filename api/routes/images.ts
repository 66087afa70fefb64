import { type ImageRequest, imageRequest, maxImageBytes, maxImageReferences } from '../../shared/kinds/image.ts'
import { checkPictures, deliverImages } from '../../shared/media/images.ts'
import { parseFields, uploadUrls, withFieldNames } from '../body/form.ts'
import { knownFields } from '../body/known-fields.ts'
import { type Endpoint, endpointWithoutKoa, type Form, type RequestWithoutKoa } from '../endpoint.ts'
import { generationHeaders } from '../schemas/headers.ts'
import { imagesAnswer } from '../schemas/media.ts'
import { modelErrors } from './model-errors.ts'
import { mediaModelList } from './model-list.ts'
import { timeoutHeader } from './request-headers.ts'
import { runMediaRequest } from './run-media-request.ts'

async function createImages(request: RequestWithoutKoa<ImageRequest>): Promise<void> {
  const { services, apiKey } = request
  const { body, dropped } = knownFields(imageRequest, request.body)
  const run = () =>
    runMediaRequest(request, {
      kind: 'image',
      body,
      events: body.stream === true,
      dropped,
      check: references => checkPictures(services, references, apiKey.policy),
      deliver: delivery => deliverImages(delivery, body),
    })
  await withFieldNames(body.images ? { input_references: 'images' } : {}, run)
}

/** OpenAI's multipart form: the images to edit are files. */
const editForm: Form = {
  files: [
    {
      name: 'image',
      required: true,
      max: maxImageReferences,
      maxBytes: maxImageBytes,
      description: 'The images to edit; also accepted as `image[]`. At most 50 MiB each, if the model takes as much.',
    },
    { name: 'mask', required: false, description: 'A PNG mask whose transparent area is edited.' },
  ],
  names: { input_references: 'image' },
  example: { model: 'gpt-image-1.5', image: 'cat.png', prompt: 'Give it a hat' },
  passing: true,
  async toBody(fields, uploads, services) {
    const [mask] = await uploadUrls(services, uploads, 'mask')
    return {
      ...parseFields(fields, { numbers: ['n', 'output_compression', 'partial_images', 'seed'], flags: ['stream'] }),
      input_references: await uploadUrls(services, uploads, 'image'),
      ...(mask && { mask }),
    }
  },
}

/** Images in base64, as large as in other conversations. */
const maxBodyBytes = 32 * 1024 * 1024

const common = {
  method: 'post',
  tag: 'Images',
  access: { scope: '*' },
  body: imageRequest,
  maxBodyBytes,
  headers: [timeoutHeader],
  answers: {
    200: { description: 'The images.', schema: imagesAnswer, headers: [...generationHeaders, 'x-gateway-dropped'] },
  },
  errors: [...modelErrors, 'url_not_allowed', 'file_too_large', 'quota_exceeded'],
  handle: createImages,
} as const satisfies Partial<Endpoint>

const text =
  'Creates images from a prompt, or edits `input_references`. Billed per image or per token, depending on the model; an image that cannot be decoded is not billed. Other fields are left out and named in `x-gateway-dropped`.'

export const imageRoutes: Endpoint[] = [
  endpointWithoutKoa({
    ...common,
    path: '/v1/images',
    operationId: 'createImage',
    summary: 'Create images',
    description: text,
    example: { model: 'gpt-image-1.5', prompt: 'A fox in the snow', size: '1024x1024' },
    form: { ...editForm, jsonFirst: true },
  }),
  endpointWithoutKoa({
    ...common,
    path: '/v1/images/generations',
    operationId: 'createImageGeneration',
    summary: 'Create images (OpenAI)',
    example: { model: 'gpt-image-1.5', prompt: 'A fox in the snow', n: 1 },
    description: 'Alias of `POST /v1/images` for OpenAI’s SDKs.',
  }),
  endpointWithoutKoa({
    ...common,
    path: '/v1/images/edits',
    operationId: 'createImageEdit',
    summary: 'Create image edits (OpenAI)',
    example: { model: 'gpt-image-1.5', prompt: 'Give it a hat', input_references: ['https://example.com/cat.png'] },
    description:
      'Alias of `POST /v1/images` for OpenAI’s SDKs, with their multipart form, and with the `images` and `mask` of OpenAI’s JSON.',
    form: editForm,
  }),
  mediaModelList('image', 'Images', 'listImageModels', 'List image models'),
]
