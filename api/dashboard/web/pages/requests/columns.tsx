import { ActionIcon, Anchor, Button, Checkbox, Group, Popover, Stack, Text } from '@mantine/core'
import { useLocalStorage } from '@mantine/hooks'
import { IconColumns3, IconLayoutSidebarRight } from '@tabler/icons-react'
import { Link } from 'wouter'
import type { RequestRow } from '../../../wire/requests.ts'
import type { Column } from '../../components/table.tsx'
import { count, duration, exactUsd, instant, moment, shortCount } from '../../format.ts'
import { Outcome } from './outcome.tsx'
import { typeName } from './types.ts'

/** The columns that can be hidden, in their order. */
const optional = [
  { value: 'key', label: 'API key' },
  { value: 'tokens', label: 'Tokens' },
  { value: 'cost', label: 'Cost' },
  { value: 'first_byte', label: 'Time to first token' },
  { value: 'attempts', label: 'Attempts' },
  { value: 'end_user', label: 'End user' },
  { value: 'session', label: 'Session' },
]
const usual = ['key', 'tokens', 'cost', 'first_byte', 'attempts']

/** The optional columns that are shown, remembered in the browser. */
export function useShownColumns() {
  return useLocalStorage({ key: 'headgate-request-columns', defaultValue: usual, getInitialValueInEffect: false })
}

export function ColumnsMenu() {
  const [shown, setShown] = useShownColumns()
  return (
    <Popover position="bottom-end" trapFocus withinPortal>
      <Popover.Target>
        <Button size="xs" variant="default" leftSection={<IconColumns3 size={14} aria-hidden />}>
          Columns
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Checkbox.Group aria-label="Columns" value={shown} onChange={setShown}>
          <Stack gap="xs">
            {optional.map(({ value, label }) => (
              <Checkbox key={value} size="xs" value={value} label={label} />
            ))}
          </Stack>
        </Checkbox.Group>
      </Popover.Dropdown>
    </Popover>
  )
}

/** The columns of the list, with the optional ones that are shown. `onPeek` shows a request beside the list. */
export function columnsOf(home: string, shown: readonly string[], onPeek: (id: string) => void): Column<RequestRow>[] {
  return all(home, onPeek).filter(({ key }) => key === undefined || shown.includes(key))
}

const all = (home: string, onPeek: (id: string) => void): Column<RequestRow>[] => [
  {
    header: 'Time',
    kind: 'rowHeader',
    nowrap: true,
    card: 'lead',
    cell: ({ id, type, created_at: at }) => {
      const name = `${typeName(type)} request of ${instant(at)}`
      return (
        <Group gap={4} wrap="nowrap">
          <Anchor
            component={Link}
            href={`${home}/requests/${id}`}
            size="sm"
            className="numeric"
            title={moment(at)}
            aria-label={name}
          >
            {instant(at)}
          </Anchor>
          {/* What a click beside the link does, for keyboards. */}
          <ActionIcon
            className="peek"
            size="xs"
            variant="subtle"
            aria-label={`Show the ${name} beside the list`}
            aria-haspopup="dialog"
            onClick={() => onPeek(id)}
          >
            <IconLayoutSidebarRight size={14} aria-hidden />
          </ActionIcon>
        </Group>
      )
    },
  },
  {
    header: 'Status',
    nowrap: true,
    card: 'line',
    cell: ({ status, error_code, count: calls }) => (
      <Group gap={6} wrap="nowrap">
        <Outcome status={status} size="sm" isShort={error_code !== null} style={{ flexShrink: 0 }} />
        {calls > 1 && (
          <Text span size="xs">
            × {count(calls)}
          </Text>
        )}
        {error_code && (
          <Text size="xs" c="dimmed" truncate maw={100} title={error_code}>
            {error_code}
          </Text>
        )}
      </Group>
    ),
  },
  {
    header: 'Endpoint',
    nowrap: true,
    card: 'line',
    cell: ({ type, environment }) => <Type type={type} environment={environment} />,
  },
  {
    header: 'Model',
    card: 'line',
    cell: ({ model, provider }) => (
      <Text size="sm" truncate maw={200} title={provider === null ? model : `${model} → ${provider}`}>
        {model || '–'}
        {provider !== null && (
          <Text span size="xs" c="dimmed">
            {' '}
            → {provider}
          </Text>
        )}
      </Text>
    ),
  },
  {
    key: 'key',
    header: 'Key',
    cell: ({ key }) => (
      <Text size="sm" truncate maw={140} title={key ? `${key.name} …${key.last4}` : undefined}>
        {key?.name ?? '–'}
      </Text>
    ),
  },
  { key: 'end_user', header: 'End user', cell: ({ end_user }) => <Name>{end_user}</Name> },
  { key: 'session', header: 'Session', cell: ({ session }) => <Name>{session}</Name> },
  { key: 'tokens', header: 'In / out', kind: 'number', nowrap: true, cell: tokensOf },
  {
    key: 'cost',
    header: 'Cost',
    kind: 'number',
    card: 'aside',
    cell: ({ cost_usd }) => (cost_usd === 0 ? '–' : exactUsd(cost_usd)),
  },
  {
    key: 'first_byte',
    header: 'TTFT',
    kind: 'number',
    nowrap: true,
    cell: ({ first_byte_ms }) => (first_byte_ms === null ? '–' : duration(first_byte_ms)),
  },
  { header: 'Duration', kind: 'number', nowrap: true, card: 'line', cell: ({ duration_ms }) => duration(duration_ms) },
  { key: 'attempts', header: 'Tries', kind: 'number', cell: ({ attempts }) => attempts },
]

function Type({ type, environment }: Pick<RequestRow, 'type' | 'environment'>) {
  return (
    <Text size="sm">
      {typeName(type)}
      {environment === 'test' && (
        <Text span size="xs" c="dimmed">
          {' '}
          test
        </Text>
      )}
    </Text>
  )
}

function tokensOf({ prompt_tokens: prompt, completion_tokens: completion }: RequestRow): string {
  return prompt + completion === 0 ? '–' : `${shortCount(prompt)} / ${shortCount(completion)}`
}

/** A name that callers chose. */
function Name({ children }: { children: string | null }) {
  return (
    <Text size="sm" truncate maw={150} title={children ?? undefined}>
      {children ?? '–'}
    </Text>
  )
}
