import { Code, NumberInput, Paper, Stack, Text } from '@mantine/core'
import { Empty } from '../../components/states.tsx'
import { count } from '../../format.ts'
import { PromptField, TabForm } from './fields.tsx'
import { ModelPicker, useChoice } from './model-picker.tsx'
import { omitEmpty } from './omit-empty.ts'
import { ApiFailure, FactsLine } from './outcome.tsx'
import { Panels } from './panels.tsx'
import { usePersistedField } from './persisted-field.ts'
import { usePlayground } from './playground-context.ts'
import { type Facts, factsOf } from './response-facts.ts'
import { type TabRun, useTabRun } from './tab-run.ts'
import { Waiting } from './waiting.tsx'

const path = '/v1/embeddings'
const example = 'The text to embed'
const maxTexts = 100
const shownNumbers = 8
const usual = { input: '', dimensions: '' as number | string }
type Made = { vectors: number[][]; facts: Facts }

export default function EmbeddingsTab() {
  const { client } = usePlayground()
  const choice = useChoice('embeddings', ({ type }) => type === 'embeddings')
  const { slug } = choice
  const [fields, setFields] = usePersistedField('embeddings.fields', usual)
  const set = (change: Partial<typeof usual>) => setFields(kept => ({ ...kept, ...change }))
  const texts = fields.input.split('\n').filter(line => line.trim() !== '')
  const input = texts.length > 1 ? texts.slice(0, maxTexts) : (texts[0] ?? example)
  const body = { model: slug, input, ...omitEmpty({ dimensions: fields.dimensions }) }
  const make = useTabRun('embeddings', async (): Promise<Made> => {
    const startedMs = performance.now()
    const response = await client.request(path, { body })
    const { data, usage } = (await response.json()) as {
      data: { embedding: number[] }[]
      usage?: { prompt_tokens: number }
    }
    const tokens = usage && { prompt: usage.prompt_tokens, completion: 0 }
    return { vectors: data.map(({ embedding }) => embedding), facts: { ...factsOf(response, startedMs), tokens } }
  })
  const form = (
    <TabForm
      submit="Create embeddings"
      pending={make.isPending}
      disabled={slug === '' || texts.length === 0}
      onSubmit={() => make.start()}
    >
      <ModelPicker choice={choice} />
      <PromptField
        label={`Texts, one per line (at most ${maxTexts})`}
        value={fields.input}
        onChange={value => set({ input: value })}
        placeholder={example}
      />
      <NumberInput
        label="Dimensions"
        description="If the model supports it"
        min={1}
        max={65_536}
        allowDecimal={false}
        value={fields.dimensions}
        onChange={dimensions => set({ dimensions })}
      />
    </TabForm>
  )
  return <Panels form={form} result={<Result make={make} />} request={{ path, body }} />
}

function Result({ make }: { make: TabRun<Made> }) {
  if (make.isPending) return <Waiting label="Creating embeddings" height={80} />
  if (make.error) return <ApiFailure error={make.error} />
  if (!make.data) return <Empty title="Your vectors appear here">Enter a text and click Create embeddings.</Empty>
  const { vectors, facts } = make.data
  return (
    <Paper withBorder p="md">
      <Stack gap="sm">
        {vectors.map((vector, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: vectors have no other identity and keep their order
          <div key={i}>
            <Text size="xs" c="dimmed">
              Text {i + 1}: {count(vector.length)} dimensions
            </Text>
            <Code style={{ overflowWrap: 'anywhere' }}>
              [{vector.slice(0, shownNumbers).join(', ')}
              {vector.length > shownNumbers && ', …'}]
            </Code>
          </div>
        ))}
        <FactsLine facts={facts} />
      </Stack>
    </Paper>
  )
}
