import { NumberInput, SimpleGrid, Switch } from '@mantine/core'
import { Empty } from '../../components/states.tsx'
import { listOf, numberOf, Offered, PromptField, stillOffered, TabForm } from './fields.tsx'
import { ModelPicker, useChoice } from './model-picker.tsx'
import { omitEmpty } from './omit-empty.ts'
import { ApiFailure } from './outcome.tsx'
import { Panels } from './panels.tsx'
import { usePersistedField } from './persisted-field.ts'
import { usePlayground } from './playground-context.ts'
import { factsOf } from './response-facts.ts'
import { type Sound, SoundPlayer } from './sound-player.tsx'
import { type TabRun, useTabRun } from './tab-run.ts'
import { Waiting } from './waiting.tsx'

const usual = { prompt: '', lyrics: '', seconds: '' as number | string, instrumental: false, format: '' }

/** A tab whose result is one sound: music or a sound effect. */
export function SoundTab({
  type,
  example,
  minSeconds,
  maxSeconds,
}: {
  type: 'music' | 'sfx'
  example: string
  minSeconds: number
  maxSeconds: number
}) {
  const path = `/v1/audio/${type}`
  const { client } = usePlayground()
  const choice = useChoice(type, model => model.type === type)
  const { model, slug } = choice
  const [fields, setFields] = usePersistedField(`${type}.fields`, usual)
  const set = (change: Partial<typeof usual>) => setFields(kept => ({ ...kept, ...change }))
  const formats = listOf(model, 'formats').filter(format => format !== 'pcm')
  const format = stillOffered(formats, fields.format)
  const takesLyrics = model?.kind.lyrics === true && !fields.instrumental
  const body = {
    model: slug,
    prompt: fields.prompt || example,
    ...omitEmpty({
      duration_s: fields.seconds,
      lyrics: takesLyrics ? fields.lyrics : '',
      instrumental: type === 'music' && fields.instrumental ? true : undefined,
      output_format: format,
    }),
  }
  const make = useTabRun(type, async (): Promise<Sound> => {
    const startedMs = performance.now()
    const response = await client.request(path, { body })
    const sound = await response.blob()
    const contentType = response.headers.get('content-type') ?? 'audio/mpeg'
    return { sound, contentType, title: fields.prompt, facts: factsOf(response, startedMs) }
  })
  const form = (
    <TabForm
      submit="Generate"
      pending={make.isPending}
      disabled={slug === '' || fields.prompt.trim() === ''}
      onSubmit={() => make.start()}
    >
      <ModelPicker choice={choice} />
      <PromptField value={fields.prompt} onChange={prompt => set({ prompt })} placeholder={example} />
      {takesLyrics && (
        <PromptField label="Lyrics" required={false} value={fields.lyrics} onChange={lyrics => set({ lyrics })} />
      )}
      {type === 'music' && (
        <Switch
          label="Instrumental"
          checked={fields.instrumental}
          onChange={event => set({ instrumental: event.currentTarget.checked })}
        />
      )}
      <SimpleGrid cols={2} spacing="sm">
        <NumberInput
          label="Seconds"
          min={numberOf(model, 'min_duration_s') ?? minSeconds}
          max={numberOf(model, 'max_duration_s') ?? maxSeconds}
          value={fields.seconds}
          onChange={seconds => set({ seconds })}
        />
        <Offered label="Format" options={formats} value={fields.format} onChange={chosen => set({ format: chosen })} />
      </SimpleGrid>
    </TabForm>
  )
  const output = `${type === 'music' ? 'music' : 'sound'}.${format || 'mp3'}`
  return <Panels form={form} result={<Result make={make} />} request={{ path, body, output }} />
}

function Result({ make }: { make: TabRun<Sound> }) {
  if (make.isPending) return <Waiting label="Generating" height={80} />
  if (make.error) return <ApiFailure error={make.error} />
  if (!make.data) return <Empty title="Your audio appears here">Enter a prompt and click Generate.</Empty>
  return <SoundPlayer {...make.data} />
}
