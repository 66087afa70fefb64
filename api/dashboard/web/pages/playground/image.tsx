import { NumberInput, Paper, SimpleGrid, Stack, Text } from '@mantine/core'
import type { CatalogModel } from '../../../wire/models.ts'
import { MediaPreview } from '../../components/media-preview.tsx'
import { Empty } from '../../components/states.tsx'
import { listOf, numberOf, Offered, PromptField, SeedField, stillOffered, TabForm } from './fields.tsx'
import { ModelPicker, useChoice } from './model-picker.tsx'
import { omitEmpty } from './omit-empty.ts'
import { ApiFailure, FactsLine } from './outcome.tsx'
import { Panels } from './panels.tsx'
import { usePersistedField } from './persisted-field.ts'
import { usePlayground } from './playground-context.ts'
import { type Reference, References } from './references.tsx'
import { type Facts, factsOf } from './response-facts.ts'
import { type TabRun, useTabRun } from './tab-run.ts'
import { Waiting } from './waiting.tsx'

const path = '/v1/images'
const maxImages = 10
const usual = {
  prompt: '',
  n: 1 as number | string,
  size: '',
  resolution: '',
  aspectRatio: '',
  quality: '',
  seed: '' as number | string,
  references: [] as Reference[],
}
type Fields = typeof usual
type Made = { images: { url: string; revised_prompt?: string }[]; prompt: string; facts: Facts }

/** Image models, and chat models that return images on the same route. */
const draws = (model: CatalogModel) => model.type === 'image' || listOf(model, 'endpoints').includes(path)

export default function ImageTab() {
  const { client } = usePlayground()
  const choice = useChoice('image', draws)
  const { model, slug } = choice
  const [fields, setFields] = usePersistedField('image.fields', usual)
  const set = (change: Partial<Fields>) => setFields(kept => ({ ...kept, ...change }))
  const body = bodyOf(slug, model, fields)
  const make = useTabRun('image', async (): Promise<Made> => {
    const startedMs = performance.now()
    const response = await client.request(path, { body })
    const { data, usage } = (await response.json()) as { data: Made['images']; usage?: { cost?: number } }
    const facts = factsOf(response, startedMs)
    return { images: data, prompt: fields.prompt, facts: { ...facts, costUsd: usage?.cost ?? facts.costUsd } }
  })
  const lacksReference = model?.kind.references_required === true && fields.references.length === 0
  const form = (
    <TabForm
      submit={fields.references.length > 0 && takesImages(model) ? 'Edit' : 'Generate'}
      pending={make.isPending}
      disabled={slug === '' || fields.prompt.trim() === '' || lacksReference}
      onSubmit={() => make.start()}
    >
      <ModelPicker choice={choice} />
      <PromptField value={fields.prompt} onChange={prompt => set({ prompt })} placeholder="A lighthouse at dusk" />
      {takesImages(model) && (
        <References
          label="Reference images"
          description={
            model?.kind.references_required
              ? 'Required: this model edits images.'
              : 'Images to edit or to use as references'
          }
          accept="image/*"
          max={numberOf(model, 'max_references') ?? maxImages}
          value={fields.references}
          onChange={references => set({ references })}
        />
      )}
      <Options model={model} fields={fields} set={set} />
    </TabForm>
  )
  return <Panels form={form} result={<Result make={make} />} request={{ path, body }} />
}

function Options({
  model,
  fields,
  set,
}: {
  model: CatalogModel | undefined
  fields: Fields
  set: (change: Partial<Fields>) => void
}) {
  const max = numberOf(model, 'max_n') ?? maxImages
  return (
    <SimpleGrid cols={2} spacing="sm">
      {max > 1 && (
        <NumberInput
          label="Images"
          min={1}
          max={max}
          allowDecimal={false}
          value={fields.n}
          onChange={n => set({ n })}
        />
      )}
      <Offered label="Size" options={listOf(model, 'sizes')} value={fields.size} onChange={size => set({ size })} />
      <Offered
        label="Resolution"
        options={listOf(model, 'resolutions')}
        value={fields.resolution}
        onChange={resolution => set({ resolution })}
      />
      <Offered
        label="Aspect ratio"
        options={listOf(model, 'aspect_ratios')}
        value={fields.aspectRatio}
        onChange={aspectRatio => set({ aspectRatio })}
      />
      <Offered
        label="Quality"
        options={listOf(model, 'qualities')}
        value={fields.quality}
        onChange={quality => set({ quality })}
      />
      <SeedField value={fields.seed} onChange={seed => set({ seed })} />
    </SimpleGrid>
  )
}

const takesImages = (model: CatalogModel | undefined) => model?.input_modalities.includes('image') === true

function bodyOf(slug: string, model: CatalogModel | undefined, fields: Fields): object {
  const { prompt, n, size, resolution, aspectRatio, quality, seed, references } = fields
  const max = numberOf(model, 'max_n') ?? maxImages
  return {
    model: slug,
    prompt: prompt || 'A lighthouse at dusk',
    response_format: 'url',
    ...omitEmpty({
      n: Number(n) > 1 && max > 1 ? Math.min(Number(n), max) : undefined,
      size: stillOffered(listOf(model, 'sizes'), size),
      resolution: stillOffered(listOf(model, 'resolutions'), resolution),
      aspect_ratio: stillOffered(listOf(model, 'aspect_ratios'), aspectRatio),
      quality: stillOffered(listOf(model, 'qualities'), quality),
      seed,
    }),
    ...(references.length > 0 && takesImages(model) && { input_references: references.map(({ url }) => url) }),
  }
}

function Result({ make }: { make: TabRun<Made> }) {
  if (make.isPending) return <Waiting label="Generating" />
  if (make.error) return <ApiFailure error={make.error} />
  if (!make.data) return <Empty title="Your image appears here">Enter a prompt and click Generate.</Empty>
  const { images, prompt, facts } = make.data
  return (
    <Paper withBorder p="md">
      <Stack gap="sm">
        <SimpleGrid cols={images.length > 1 ? 2 : 1} spacing="sm">
          {images.map(({ url }) => (
            <MediaPreview key={url} url={url} contentType="image/*" title={prompt} />
          ))}
        </SimpleGrid>
        {images[0]?.revised_prompt && (
          <Text size="xs" c="dimmed">
            Revised prompt: {images[0].revised_prompt}
          </Text>
        )}
        <FactsLine facts={facts} />
      </Stack>
    </Paper>
  )
}
