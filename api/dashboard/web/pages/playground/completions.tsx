import { NumberInput, Paper, SimpleGrid, Stack, Text } from '@mantine/core'
import { Empty } from '../../components/states.tsx'
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

const path = '/v1/completions'
const example = 'Once upon a time'
const usual = { prompt: '', maxTokens: 100 as number | string, temperature: '' as number | string }
type Written = { text: string; facts: Facts }

export default function CompletionsTab() {
  const { client } = usePlayground()
  const choice = useChoice('completions', ({ type }) => type === 'chat')
  const { slug } = choice
  const [fields, setFields] = usePersistedField('completions.fields', usual)
  const set = (change: Partial<typeof usual>) => setFields(kept => ({ ...kept, ...change }))
  const body = {
    model: slug,
    prompt: fields.prompt || example,
    ...omitEmpty({ max_tokens: fields.maxTokens, temperature: fields.temperature }),
  }
  const write = useTabRun('completions', async (): Promise<Written> => {
    const startedMs = performance.now()
    const response = await client.request(path, { body })
    const { choices, usage } = (await response.json()) as {
      choices: { text: string }[]
      usage?: { prompt_tokens: number; completion_tokens: number }
    }
    const tokens = usage && { prompt: usage.prompt_tokens, completion: usage.completion_tokens }
    return { text: choices[0]?.text ?? '', facts: { ...factsOf(response, startedMs), tokens } }
  })
  const form = (
    <TabForm
      submit="Complete"
      pending={write.isPending}
      disabled={slug === '' || fields.prompt.trim() === ''}
      onSubmit={() => write.start()}
    >
      <ModelPicker choice={choice} />
      <PromptField value={fields.prompt} onChange={prompt => set({ prompt })} placeholder={example} />
      <SimpleGrid cols={2} spacing="sm">
        <NumberInput
          label="Max tokens"
          min={1}
          allowDecimal={false}
          value={fields.maxTokens}
          onChange={maxTokens => set({ maxTokens })}
        />
        <NumberInput
          label="Temperature"
          min={0}
          max={2}
          step={0.1}
          value={fields.temperature}
          onChange={temperature => set({ temperature })}
        />
      </SimpleGrid>
    </TabForm>
  )
  return <Panels form={form} result={<Result write={write} />} request={{ path, body }} />
}

function Result({ write }: { write: TabRun<Written> }) {
  if (write.isPending) return <Waiting label="Completing" height={80} />
  if (write.error) return <ApiFailure error={write.error} />
  if (!write.data) return <Empty title="The completion appears here">Enter a prompt and click Complete.</Empty>
  return (
    <Paper withBorder p="md">
      <Stack gap="sm">
        <Text size="sm" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
          {write.data.text}
        </Text>
        <FactsLine facts={write.data.facts} />
      </Stack>
    </Paper>
  )
}
