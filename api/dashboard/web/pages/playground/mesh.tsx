import { Input, NumberInput, SegmentedControl, Select, SimpleGrid, Stack, Switch } from '@mantine/core'
import type { CatalogModel } from '../../../wire/models.ts'
import { listOf, numberOf, PromptField, SeedField, TabForm } from './fields.tsx'
import { JobPanel, useJobRun } from './job.tsx'
import { ModelPicker, useChoice } from './model-picker.tsx'
import { omitEmpty } from './omit-empty.ts'
import { Panels } from './panels.tsx'
import { usePersistedField } from './persisted-field.ts'
import { type Reference, References } from './references.tsx'

const path = '/v1/meshes'
const example = 'A wooden chair with a woven seat'
const inputNames: Record<string, string> = { text: 'Text', image: 'One image', multi_image: 'Several images' }
const usual = {
  input: 'text',
  prompt: '',
  images: [] as Reference[],
  texture: true,
  pbr: false,
  texturePrompt: '',
  polycount: '' as number | string,
  topology: '',
  seed: '' as number | string,
}
type Fields = typeof usual
type Set = (change: Partial<Fields>) => void

export default function MeshTab() {
  const choice = useChoice('mesh', ({ type }) => type === 'mesh')
  const { model, slug } = choice
  const [fields, setFields] = usePersistedField('mesh.fields', usual)
  const set: Set = change => setFields(kept => ({ ...kept, ...change }))
  const run = useJobRun(path)
  const inputs = listOf(model, 'inputs')
  const input = inputs.includes(fields.input) ? fields.input : (inputs[0] ?? 'text')
  const body = bodyOf(slug, model, { ...fields, input })
  const isReady = input === 'text' ? fields.prompt.trim() !== '' : fields.images.length > 0
  const form = (
    <TabForm
      submit="Generate"
      pending={run.submit.isPending}
      disabled={slug === '' || !isReady}
      onSubmit={() => run.submit.mutate(body)}
    >
      <ModelPicker choice={choice} />
      <Source inputs={inputs} input={input} model={model} fields={fields} set={set} />
      <Options model={model} fields={fields} set={set} />
    </TabForm>
  )
  const result = <JobPanel run={run} title={fields.prompt || '3D mesh'} empty="Your mesh appears here" />
  return <Panels form={form} result={result} request={{ path, body }} />
}

function Source({
  inputs,
  input,
  model,
  fields,
  set,
}: {
  inputs: string[]
  input: string
  model: CatalogModel | undefined
  fields: Fields
  set: Set
}) {
  return (
    <Stack gap="sm">
      {inputs.length > 1 && (
        <div>
          <Input.Label labelElement="div" id="mesh-from">
            Input
          </Input.Label>
          <SegmentedControl
            fullWidth
            size="xs"
            aria-labelledby="mesh-from"
            data={inputs.map(value => ({ value, label: inputNames[value] ?? value }))}
            value={input}
            onChange={chosen => set({ input: chosen })}
          />
        </div>
      )}
      {input === 'text' ? (
        <PromptField value={fields.prompt} onChange={prompt => set({ prompt })} placeholder={example} />
      ) : (
        <References
          label={input === 'image' ? 'Image' : 'Views of the object, front first'}
          accept="image/*"
          max={input === 'image' ? 1 : (numberOf(model, 'max_images') ?? 4)}
          value={fields.images}
          onChange={images => set({ images })}
        />
      )}
    </Stack>
  )
}

function Options({ model, fields, set }: { model: CatalogModel | undefined; fields: Fields; set: Set }) {
  const offers = (option: string) => listOf(model, 'options').includes(option)
  return (
    <Stack gap="sm">
      {offers('texture') && (
        <Switch
          label="Texture"
          checked={fields.texture}
          onChange={event => set({ texture: event.currentTarget.checked })}
        />
      )}
      {offers('pbr') && (
        <Switch
          label="Metallic, roughness and normal maps (PBR)"
          checked={fields.pbr}
          onChange={event => set({ pbr: event.currentTarget.checked })}
        />
      )}
      {offers('texture_prompt') && (
        <PromptField
          label="Texture prompt"
          required={false}
          value={fields.texturePrompt}
          onChange={texturePrompt => set({ texturePrompt })}
        />
      )}
      <SimpleGrid cols={2} spacing="sm">
        {offers('target_polycount') && (
          <NumberInput
            label="Polygons"
            min={100}
            max={300_000}
            step={1_000}
            allowDecimal={false}
            value={fields.polycount}
            onChange={polycount => set({ polycount })}
          />
        )}
        {offers('topology') && (
          <Select
            label="Topology"
            placeholder="Default"
            clearable
            data={['triangle', 'quad']}
            value={fields.topology || null}
            onChange={topology => set({ topology: topology ?? '' })}
          />
        )}
        {offers('seed') && <SeedField value={fields.seed} onChange={seed => set({ seed })} />}
      </SimpleGrid>
    </Stack>
  )
}

function bodyOf(slug: string, model: CatalogModel | undefined, fields: Fields): object {
  const { input, prompt, images, texture, pbr, texturePrompt, polycount, topology, seed } = fields
  const offers = (option: string) => listOf(model, 'options').includes(option)
  const urls = images.map(({ url }) => url)
  return {
    model: slug,
    ...omitEmpty({
      prompt: input === 'text' ? prompt || example : '',
      image_url: input === 'image' ? urls[0] : '',
      texture: offers('texture') && !texture ? false : undefined,
      pbr: offers('pbr') && pbr ? true : undefined,
      texture_prompt: offers('texture_prompt') ? texturePrompt : '',
      target_polycount: offers('target_polycount') ? polycount : '',
      topology: offers('topology') ? topology : '',
      seed: offers('seed') ? seed : '',
    }),
    ...(input === 'multi_image' && { image_urls: urls }),
  }
}
