import { Box, Button, Code, Group, Image, Loader, Paper, Spoiler, Stack, Text, Textarea } from '@mantine/core'
import { IconRefresh } from '@tabler/icons-react'
import { useState } from 'react'
import { Copy } from '../../../components/copy.tsx'
import { AnswerText, PlainSwitch } from '../answer-text.tsx'
import { ApiFailure, FactsLine } from '../outcome.tsx'
import type { AssistantTurn, ToolCall, Turn } from './turns.ts'

const written = { whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' } as const

/** The conversation so far. */
export function Conversation({ turns, onRegenerate }: { turns: Turn[]; onRegenerate: (() => void) | null }) {
  return (
    <Stack gap="md" component="section" aria-label="Conversation">
      {turns.map((turn, index) => (
        <Entry key={turn.id} turn={turn} onRegenerate={index === turns.length - 1 ? onRegenerate : null} />
      ))}
    </Stack>
  )
}

function Entry({ turn, onRegenerate }: { turn: Turn; onRegenerate: (() => void) | null }) {
  if (turn.role === 'assistant') return <AnswerEntry turn={turn} onRegenerate={onRegenerate} />
  if (turn.role === 'tool') return <Said who={`Result of ${turn.name}`} text={turn.text} mono />
  return (
    <Said who="You" text={turn.text}>
      {turn.pictures.length > 0 && (
        <Group gap="xs">
          {turn.pictures.map(({ name, url }) => (
            <Image key={url} src={url} alt={name} mah={160} w="auto" radius="sm" />
          ))}
        </Group>
      )}
    </Said>
  )
}

function Said({
  who,
  text,
  mono,
  children,
}: {
  who: string
  text: string
  mono?: boolean
  children?: React.ReactNode
}) {
  return (
    <Paper p="sm" bg="var(--mantine-color-default-hover)">
      <Text size="xs" fw={600} c="dimmed">
        {who}
      </Text>
      <Text size="sm" style={written} ff={mono ? 'monospace' : undefined}>
        {text}
      </Text>
      {children}
    </Paper>
  )
}

const states = { streaming: 'Responding', done: 'Completed', stopped: 'Stopped', failed: 'Failed' }

function AnswerEntry({ turn, onRegenerate }: { turn: AssistantTurn; onRegenerate: (() => void) | null }) {
  const { answer, state, facts, error } = turn
  const isOver = state !== 'streaming'
  return (
    <Box px="sm">
      <Group gap="xs">
        <Text size="xs" fw={600} c="dimmed">
          {facts?.model ?? 'Assistant'}
        </Text>
        {state === 'streaming' && <Loader size={12} type="dots" aria-hidden />}
        {state === 'stopped' && (
          <Text size="xs" c="dimmed">
            stopped
          </Text>
        )}
        <output className="visually-hidden">{states[state]}</output>
      </Group>
      <Stack gap="xs">
        {answer.reasoning !== '' && <Reasoning text={answer.reasoning} />}
        {answer.text !== '' && <AnswerText text={answer.text} />}
        {answer.pictures.map((url, index) => (
          <Image
            key={url.slice(-40)}
            src={url}
            alt={`Image ${index + 1} of the response`}
            mah={400}
            w="auto"
            maw="100%"
            radius="sm"
          />
        ))}
        {answer.toolCalls.map(call => (
          <Call key={call.id} call={call} />
        ))}
        {answer.finishReason === 'length' && (
          <Text size="xs" c="dimmed">
            Truncated at the token limit.
          </Text>
        )}
        {error && <ApiFailure error={error} />}
        {isOver && (
          <Group gap="xs">
            {facts && <FactsLine facts={facts} />}
            {answer.text !== '' && <Copy value={answer.text} label="answer" />}
            {answer.text !== '' && <PlainSwitch />}
            {onRegenerate && (
              <Button
                size="compact-xs"
                variant="subtle"
                color="gray"
                leftSection={<IconRefresh size={14} aria-hidden />}
                onClick={onRegenerate}
              >
                Regenerate
              </Button>
            )}
          </Group>
        )}
      </Stack>
    </Box>
  )
}

function Reasoning({ text }: { text: string }) {
  return (
    <Spoiler maxHeight={44} showLabel="Show reasoning" hideLabel="Hide reasoning">
      <Text size="xs" c="dimmed" style={written}>
        {text}
      </Text>
    </Spoiler>
  )
}

function Call({ call }: { call: ToolCall }) {
  return (
    <Paper withBorder p="xs">
      <Text size="xs" fw={600}>
        Called {call.name}
      </Text>
      <Code block style={written}>
        {call.arguments || '{}'}
      </Code>
    </Paper>
  )
}

/** The tool results, entered by the user. */
export function CallResults({ calls, onSend }: { calls: ToolCall[]; onSend: (results: string[]) => void }) {
  const [results, setResults] = useState<Record<string, string>>({})
  const isWhole = calls.every(({ id }) => (results[id] ?? '').trim() !== '')
  return (
    <Paper withBorder p="sm">
      <Stack gap="xs">
        <Text size="sm" fw={500}>
          The model is waiting for {calls.length === 1 ? 'a result' : `${calls.length} results`}
        </Text>
        {calls.map(({ id, name }) => (
          <Textarea
            key={id}
            label={`Result of ${name}`}
            autosize
            minRows={1}
            maxRows={8}
            placeholder='{"temperature_c": 21}'
            value={results[id] ?? ''}
            onChange={event => {
              const { value } = event.currentTarget
              setResults(kept => ({ ...kept, [id]: value }))
            }}
          />
        ))}
        <Group justify="flex-end">
          <Button size="xs" disabled={!isWhole} onClick={() => onSend(calls.map(({ id }) => results[id]!))}>
            Send results
          </Button>
        </Group>
      </Stack>
    </Paper>
  )
}
