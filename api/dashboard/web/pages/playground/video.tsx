import { NumberInput, Select, SimpleGrid, Switch } from '@mantine/core'
import type { CatalogModel } from '../../../wire/models.ts'
import { listOf, numberOf, Offered, PromptField, SeedField, stillOffered, TabForm } from './fields.tsx'
import { JobPanel, useJobRun } from './job.tsx'
import { ModelPicker, useChoice } from './model-picker.tsx'
import { omitEmpty } from './omit-empty.ts'
import { Panels } from './panels.tsx'
import { usePersistedField } from './persisted-field.ts'
import { type Reference, References } from './references.tsx'

const path = '/v1/videos'
const example = 'Waves roll onto a beach at dawn'
const maxS = 60
const usual = {
  prompt: '',
  seconds: '' as number | string,
  resolution: '',
  aspectRatio: '',
  start: [] as Reference[],
  end: [] as Reference[],
  references: [] as Reference[],
  video: [] as Reference[],
  negative: '',
  seed: '' as number | string,
  audio: false,
}
type Fields = typeof usual
type Set = (change: Partial<Fields>) => void

export default function VideoTab() {
  const choice = useChoice('video', ({ type }) => type === 'video')
  const { model, slug } = choice
  const [fields, setFields] = usePersistedField('video.fields', usual)
  const set: Set = change => setFields(kept => ({ ...kept, ...change }))
  const run = useJobRun(path)
  const body = bodyOf(slug, model, fields)
  const lacksPrompt = model?.kind.prompt !== 'none' && fields.prompt.trim() === ''
  const form = (
    <TabForm
      submit="Generate"
      pending={run.submit.isPending}
      disabled={slug === '' || (lacksPrompt && onlyText(model))}
      onSubmit={() => run.submit.mutate(body)}
    >
      <ModelPicker choice={choice} />
      {model?.kind.prompt !== 'none' && (
        <PromptField
          value={fields.prompt}
          required={onlyText(model)}
          onChange={prompt => set({ prompt })}
          placeholder={example}
        />
      )}
      <Sources model={model} fields={fields} set={set} />
      <Options model={model} fields={fields} set={set} />
    </TabForm>
  )
  const result = <JobPanel run={run} title={fields.prompt || 'Video'} empty="Your video appears here" />
  return <Panels form={form} result={result} request={{ path, body }} />
}

const takes = (model: CatalogModel | undefined, ...modes: string[]) =>
  modes.some(mode => listOf(model, 'modes').includes(mode))
const onlyText = (model: CatalogModel | undefined) => listOf(model, 'modes').join() === 'text'

function Sources({ model, fields, set }: { model: CatalogModel | undefined; fields: Fields; set: Set }) {
  const moves = takes(model, 'motion_control')
  return (
    <>
      {takes(model, 'image', 'motion_control') && (
        <References
          label={moves ? 'Character' : 'First frame'}
          accept="image/*"
          value={fields.start}
          onChange={start => set({ start })}
        />
      )}
      {model?.kind.end_image === true && fields.start.length > 0 && (
        <References label="Last frame" accept="image/*" value={fields.end} onChange={end => set({ end })} />
      )}
      {takes(model, 'reference') && fields.start.length === 0 && (
        <References
          label="Reference images"
          accept="image/*"
          max={numberOf(model, 'max_references') ?? 3}
          value={fields.references}
          onChange={references => set({ references })}
        />
      )}
      {takes(model, 'video', 'motion_control') && (
        <References
          label={moves ? 'Motion reference video' : 'Input video'}
          accept="video/*"
          value={fields.video}
          onChange={video => set({ video })}
        />
      )}
    </>
  )
}

function Options({ model, fields, set }: { model: CatalogModel | undefined; fields: Fields; set: Set }) {
  const sound = model?.kind.audio
  return (
    <>
      <SimpleGrid cols={2} spacing="sm">
        <Length model={model} value={fields.seconds} onChange={seconds => set({ seconds })} />
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
        {model?.kind.seed === true && <SeedField value={fields.seed} onChange={seed => set({ seed })} />}
      </SimpleGrid>
      {model?.kind.negative_prompt === true && (
        <PromptField
          label="Negative prompt"
          required={false}
          value={fields.negative}
          onChange={negative => set({ negative })}
        />
      )}
      {sound === true && (
        <Switch
          label="Generate audio"
          checked={fields.audio}
          onChange={event => set({ audio: event.currentTarget.checked })}
        />
      )}
    </>
  )
}

function Length({
  model,
  value,
  onChange,
}: {
  model: CatalogModel | undefined
  value: number | string
  onChange: (value: number | string) => void
}) {
  const lengths = listOf(model, 'durations')
  if (takes(model, 'video', 'motion_control')) return null
  if (lengths.length === 0)
    return (
      <NumberInput
        label="Seconds"
        min={1}
        max={numberOf(model, 'max_duration_s') ?? maxS}
        allowDecimal={false}
        value={value}
        onChange={onChange}
      />
    )
  return (
    <Select
      label="Seconds"
      placeholder="Closest to 5"
      clearable
      data={lengths}
      value={lengths.includes(String(value)) ? String(value) : null}
      onChange={chosen => onChange(chosen ?? '')}
    />
  )
}

function bodyOf(slug: string, model: CatalogModel | undefined, fields: Fields): object {
  const lengths = listOf(model, 'durations')
  const seconds = lengths.length > 0 ? stillOffered(lengths, String(fields.seconds)) : fields.seconds
  const moving = takes(model, 'video', 'motion_control')
  const start = takes(model, 'image', 'motion_control') ? fields.start[0]?.url : undefined
  const references = takes(model, 'reference') && !start ? fields.references.map(({ url }) => url) : []
  return {
    model: slug,
    ...omitEmpty({
      prompt: model?.kind.prompt === 'none' ? '' : fields.prompt || (onlyText(model) ? example : ''),
      seconds: moving || seconds === '' ? undefined : Number(seconds),
      resolution: stillOffered(listOf(model, 'resolutions'), fields.resolution),
      aspect_ratio: stillOffered(listOf(model, 'aspect_ratios'), fields.aspectRatio),
      start_image_url: start,
      end_image_url: model?.kind.end_image === true && start ? fields.end[0]?.url : undefined,
      input_video_url: moving ? fields.video[0]?.url : undefined,
      negative_prompt: model?.kind.negative_prompt === true ? fields.negative : '',
      seed: model?.kind.seed === true ? fields.seed : '',
      audio: model?.kind.audio === true && fields.audio ? true : undefined,
    }),
    ...(references.length > 0 && { input_references: references }),
  }
}
