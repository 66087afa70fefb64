import { NumberInput, SimpleGrid } from '@mantine/core'
import type { CatalogModel } from '../../../wire/models.ts'
import { Empty } from '../../components/states.tsx'
import { listOf, numberOf, Offered, PromptField, stillOffered, TabForm, WordField } from './fields.tsx'
import { ModelPicker, useChoice } from './model-picker.tsx'
import { omitEmpty } from './omit-empty.ts'
import { ApiFailure } from './outcome.tsx'
import { Panels } from './panels.tsx'
import { usePersistedField } from './persisted-field.ts'
import { usePlayground } from './playground-context.ts'
import { type Facts, factsOf } from './response-facts.ts'
import { SoundPlayer } from './sound-player.tsx'
import { type TabRun, useTabRun } from './tab-run.ts'
import { Waiting } from './waiting.tsx'

const path = '/v1/audio/speech'
const example = 'The quick brown fox jumps over the lazy dog.'
const usual = { input: '', voice: '', format: '', speed: '' as number | string, instructions: '' }
type Fields = typeof usual
type Spoken = { sound: Blob; contentType: string; text: string; facts: Facts }

export default function SpeechTab() {
  const { client } = usePlayground()
  const choice = useChoice('speech', ({ type }) => type === 'speech')
  const { model, slug } = choice
  const [fields, setFields] = usePersistedField('speech.fields', usual)
  const set = (change: Partial<Fields>) => setFields(kept => ({ ...kept, ...change }))
  const body = bodyOf(slug, model, fields)
  const speak = useTabRun('speech', async (): Promise<Spoken> => {
    const startedMs = performance.now()
    const response = await client.request(path, { body })
    const sound = await response.blob()
    const contentType = response.headers.get('content-type') ?? 'audio/mpeg'
    return { sound, contentType, text: fields.input, facts: factsOf(response, startedMs) }
  })
  const voices = listOf(model, 'voices')
  const max = numberOf(model, 'max_characters')
  const form = (
    <TabForm
      submit="Generate speech"
      pending={speak.isPending}
      disabled={slug === '' || fields.input.trim() === ''}
      onSubmit={() => speak.start()}
    >
      <ModelPicker choice={choice} />
      <PromptField
        label={max ? `Text (at most ${max} characters)` : 'Text'}
        value={fields.input}
        onChange={input => set({ input })}
        placeholder={example}
      />
      <SimpleGrid cols={2} spacing="sm">
        {voices.length > 0 ? (
          <Offered label="Voice" options={voices} value={fields.voice} onChange={voice => set({ voice })} />
        ) : (
          <WordField
            label="Voice"
            description="A voice ID of the provider. Leave empty for the default."
            value={fields.voice}
            onChange={voice => set({ voice })}
          />
        )}
        <Offered label="Format" options={formatsOf(model)} value={fields.format} onChange={format => set({ format })} />
        <NumberInput
          label="Speed"
          description="0.25 to 4"
          min={0.25}
          max={4}
          step={0.25}
          value={fields.speed}
          onChange={speed => set({ speed })}
        />
      </SimpleGrid>
      {takesInstructions(model) && (
        <PromptField
          label="Instructions"
          required={false}
          value={fields.instructions}
          onChange={instructions => set({ instructions })}
          placeholder="Calm and slow"
        />
      )}
    </TabForm>
  )
  const format = formatsOf(model).includes(fields.format) ? fields.format : 'mp3'
  return <Panels form={form} result={<Result speak={speak} />} request={{ path, body, output: `speech.${format}` }} />
}

/** Raw PCM cannot be played by browsers. */
const formatsOf = (model: CatalogModel | undefined) => listOf(model, 'formats').filter(format => format !== 'pcm')
const takesInstructions = (model: CatalogModel | undefined) => model !== undefined && model.kind.instructions !== false

function bodyOf(slug: string, model: CatalogModel | undefined, fields: Fields): object {
  const { input, voice, format, speed, instructions } = fields
  const voices = listOf(model, 'voices')
  return {
    model: slug,
    input: input || example,
    ...omitEmpty({
      voice: voices.length > 0 ? stillOffered(voices, voice) : voice,
      response_format: stillOffered(formatsOf(model), format),
      speed,
      instructions: takesInstructions(model) ? instructions : '',
    }),
  }
}

function Result({ speak }: { speak: TabRun<Spoken> }) {
  if (speak.isPending) return <Waiting label="Generating" height={80} />
  if (speak.error) return <ApiFailure error={speak.error} />
  if (!speak.data) return <Empty title="Your audio appears here">Enter a text and click Generate speech.</Empty>
  const { text, ...sound } = speak.data
  return <SoundPlayer {...sound} title={`Speech: ${text}`} />
}
