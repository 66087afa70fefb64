import { Anchor, Button, Group, MultiSelect, Paper, SimpleGrid, Stack, Text, Textarea } from '@mantine/core'
import { type FormEvent, useEffect, useRef } from 'react'
import { Link, useSearchParams } from 'wouter'
import { isOffered } from '../../catalog.ts'
import { Empty } from '../../components/states.tsx'
import { usePlace } from '../../session.tsx'
import { AnswerText, PlainSwitch } from './answer-text.tsx'
import { answersOf } from './chat/answers.ts'
import { chat } from './chat/formats/chat.ts'
import { type Answer, noAnswer } from './chat/turns.ts'
import { ApiFailure, FactsLine } from './outcome.tsx'
import { Equivalent, requestSnippets } from './panels.tsx'
import { usePersistedField } from './persisted-field.ts'
import { usePlayground } from './playground-context.ts'
import type { Facts } from './response-facts.ts'

const maxModels = 3
const maxShown = 200

/** The answer of one model. */
type Column = {
  model: string
  answer: Answer
  facts: Facts | null
  state: 'streaming' | 'done' | 'stopped' | 'failed'
  error: Error | null
}

/** One prompt, answered by up to three models side by side. The models are in the address. */
export default function CompareTab() {
  const { apiKey, models } = usePlayground()
  const [search, setSearch] = useSearchParams()
  const [prompt, setPrompt] = usePersistedField('compare.prompt', '')
  const { columns, isRunning, run, stop } = useColumns()
  const usable = models.filter(
    model => model.type === 'chat' && model.endpoint === chat.path && isOffered(apiKey, model),
  )
  const isKnown = (slug: string) => slug === 'auto' || usable.some(({ id }) => id === slug)
  const chosen = (search.get('models') ?? 'auto').split(',').filter(isKnown).slice(0, maxModels)
  const choose = (slugs: string[]) => setSearch({ models: slugs.join(',') }, { replace: true })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (!isRunning) run(chosen, prompt)
  }
  return (
    <Stack gap="md">
      <form onSubmit={submit}>
        <Stack gap="sm">
          <MultiSelect
            label="Models"
            description="Two or three that answer the same prompt. Each answer is a separate request."
            searchable
            limit={maxShown}
            maxValues={maxModels}
            data={[
              { value: 'auto', label: 'auto: selected by the gateway' },
              ...usable.map(({ id, name }) => ({ value: id, label: `${name} (${id})` })),
            ]}
            value={chosen}
            onChange={choose}
          />
          <Textarea
            label="Prompt"
            autosize
            minRows={3}
            maxRows={12}
            value={prompt}
            onChange={event => setPrompt(event.currentTarget.value)}
          />
          <Group justify="flex-end">
            {isRunning ? (
              <Button variant="default" onClick={stop}>
                Stop
              </Button>
            ) : (
              <Button type="submit" disabled={chosen.length < 2 || prompt.trim() === ''}>
                Compare
              </Button>
            )}
          </Group>
        </Stack>
      </form>
      {columns.length === 0 ? (
        <Empty title="The answers appear here">Choose two or three models, enter a prompt and click Compare.</Empty>
      ) : (
        <SimpleGrid cols={{ base: 1, md: columns.length }} spacing="md">
          {columns.map(column => (
            <AnswerColumn key={column.model} column={column} />
          ))}
        </SimpleGrid>
      )}
      <Equivalent
        snippets={requestSnippets({
          path: chat.path,
          body: bodyOf(chosen[0] ?? 'auto', prompt || 'Hello'),
          stream: true,
        })}
      />
    </Stack>
  )
}

function bodyOf(model: string, text: string): object {
  const usual = { maxOutputTokens: null, system: '', tools: [], mode: '', temperature: '', maxTokens: '' }
  const turns = [{ id: 0, role: 'user' as const, text, pictures: [] }]
  return chat.body({ ...usual, model, turns, asksForPictures: false })
}

/** The answers of the last prompt, and how to get others. */
function useColumns() {
  const { client } = usePlayground()
  const [columns, setColumns] = usePersistedField<Column[]>('compare.columns', [])
  const running = useRef<AbortController | null>(null)
  useEffect(() => {
    // Answers that were in progress when the tab was left have been aborted.
    setColumns(kept => kept.map(column => (column.state === 'streaming' ? { ...column, state: 'stopped' } : column)))
    return () => running.current?.abort()
  }, [setColumns])
  const run = (slugs: string[], prompt: string) => {
    const aborted = new AbortController()
    running.current = aborted
    setColumns(slugs.map(model => ({ model, answer: noAnswer, facts: null, state: 'streaming', error: null })))
    for (const model of slugs) void answer(model, prompt, aborted.signal)
  }
  const answer = async (model: string, prompt: string, signal: AbortSignal) => {
    const update = (change: Partial<Column>) =>
      setColumns(kept => kept.map(column => (column.model === model ? { ...column, ...change } : column)))
    try {
      for await (const change of answersOf(client, chat, { body: bodyOf(model, prompt), signal })) update(change)
      update({ state: 'done' })
    } catch (error) {
      update(signal.aborted ? { state: 'stopped' } : { state: 'failed', error: error as Error })
    }
  }
  return {
    columns,
    isRunning: columns.some(({ state }) => state === 'streaming'),
    run,
    stop: () => running.current?.abort(),
  }
}

const states = { streaming: 'Responding', done: 'Completed', stopped: 'Stopped', failed: 'Failed' }

function AnswerColumn({ column: { model, answer, facts, state, error } }: { column: Column }) {
  const { home } = usePlace()
  return (
    <Paper component="section" aria-label={`Answer of ${model}`} withBorder p="md" style={{ minWidth: 0 }}>
      <Stack gap="xs">
        <Group justify="space-between" gap="xs">
          <Text size="sm" fw={600}>
            {model}
          </Text>
          <Text size="xs" c="dimmed" component="output">
            {states[state]}
          </Text>
        </Group>
        {answer.text !== '' && <AnswerText text={answer.text} />}
        {error && <ApiFailure error={error} />}
        {facts && state !== 'streaming' && (
          <Group gap="xs">
            <FactsLine facts={facts} />
            <PlainSwitch />
          </Group>
        )}
        {model === 'auto' && state === 'done' && facts?.generationId != null && (
          <Anchor component={Link} href={`${home}/requests/${facts.generationId}`} size="xs">
            Why this model
          </Anchor>
        )}
      </Stack>
    </Paper>
  )
}
