import { Anchor, Group, Paper, SimpleGrid, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import { Link } from 'wouter'
import type { Activity, Overview, Periods, Sums } from '../../../wire/usage.ts'
import { Sparkline } from '../../components/charts/sparkline.tsx'
import { colorVariable } from '../../components/charts/time-chart.tsx'
import { count, duration, moment, percent, shortCount, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { requestsHref } from '../usage/queries.ts'
import { errorsOf } from '../usage/sums.ts'

/** The figures of the chosen time, each with its course and its change against the time before. */
export function Tiles({ activity, keyId }: { activity: Activity; keyId?: string }) {
  const { home } = usePlace()
  const { values, total, before, environment, from, to } = activity
  const than = timeBefore(activity)
  const course = (of: (sums: Sums) => number | null) => values.map(sums => sums && of(sums))
  const href = (status?: string) => requestsHref(home, { environment, key: keyId, from, to, status })
  return (
    <SimpleGrid cols={{ base: 2, md: 3, xl: 6 }} spacing="md">
      <Tile label="Spend" value={usd(total.cost_usd)} course={course(({ cost_usd }) => cost_usd)}>
        <Change than={than} now={total.cost_usd} before={before.cost_usd} />
      </Tile>
      <Tile
        label="Requests"
        value={shortCount(total.requests)}
        course={course(({ requests }) => requests)}
        href={href()}
      >
        <Change than={than} now={total.requests} before={before.requests} />
      </Tile>
      <QualityTiles activity={activity} errorsHref={href('error')} />
    </SimpleGrid>
  )
}

/** Errors, latency, time to first token and tokens, of an organisation or of the whole service. */
export function QualityTiles({
  activity: { values, total, before, ...periods },
  errorsHref,
}: {
  activity: Pick<Periods, 'times' | 'step_ms'> & { values: (Sums | null)[]; total: Sums; before: Sums }
  errorsHref?: string
}) {
  const course = (of: (sums: Sums) => number | null) => values.map(sums => sums && of(sums))
  const errorRate = ratio(errorsOf(total), total.requests)
  const than = timeBefore(periods)
  return (
    <>
      <Tile
        label="Error rate"
        value={errorRate === null ? '–' : percent(errorRate)}
        course={course(sums => ratio(errorsOf(sums), sums.requests))}
        color="red.6"
        {...(errorsHref !== undefined && { href: errorsHref })}
      >
        {total.failed > 0 ? `${count(total.failed)} failed at providers` : 'none failed at providers'}
        <Change than={than} now={errorRate} before={ratio(errorsOf(before), before.requests)} isWorse />
      </Tile>
      <Tile
        label="Latency, p50"
        value={timeOf(total.latency_p50_ms)}
        course={course(({ latency_p50_ms: ms }) => ms)}
        color="violet.5"
      >
        p95 {timeOf(total.latency_p95_ms)}
        <Change than={than} now={total.latency_p50_ms} before={before.latency_p50_ms} isWorse />
      </Tile>
      <Tile
        label="TTFT, p50"
        value={timeOf(total.first_byte_p50_ms)}
        course={course(({ first_byte_p50_ms: ms }) => ms)}
        color="violet.5"
      >
        {total.first_byte_p95_ms === null ? 'nothing was streamed' : `p95 ${timeOf(total.first_byte_p95_ms)}`}
        <Change than={than} now={total.first_byte_p50_ms} before={before.first_byte_p50_ms} isWorse />
      </Tile>
      <Tile label="Tokens" value={shortCount(tokensOf(total))} course={course(tokensOf)}>
        {total.prompt_tokens > 0 && `${percent(total.cached_tokens / total.prompt_tokens)} of input cached`}
        <Change than={than} now={tokensOf(total)} before={tokensOf(before)} />
      </Tile>
    </>
  )
}

const tokensOf = ({ prompt_tokens: prompt, completion_tokens: completion }: Sums) => prompt + completion

function ratio(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole
}

export function timeOf(ms: number | null): string {
  return ms === null ? '–' : duration(ms)
}

export function Tile({
  label,
  value,
  course,
  color = 'water.5',
  href,
  children,
}: {
  label: string
  value: string
  course: (number | null)[]
  color?: string
  href?: string
  children: ReactNode
}) {
  return (
    <Paper component="section" aria-label={label} withBorder p="sm" style={{ minWidth: 0 }}>
      <Text size="xs" c="dimmed">
        {href === undefined ? (
          label
        ) : (
          <Anchor component={Link} href={href} inherit>
            {label}
          </Anchor>
        )}
      </Text>
      <Text size="1.35rem" lh={1.4} fw={600} className="numeric" truncate>
        {value}
      </Text>
      <Text size="xs" c="dimmed" component="div" mih={50}>
        {children}
      </Text>
      <Sparkline values={course} color={colorVariable(color)} />
    </Paper>
  )
}

/** What figures are compared with: "the 7 days before". */
export function timeBefore({ times, step_ms: stepMs }: Pick<Periods, 'times' | 'step_ms'>): string {
  const hours = Math.round((times.length * stepMs) / 3_600_000)
  if (hours <= 1) return 'the hour before'
  return `the ${hours % 24 === 0 && hours > 24 ? `${hours / 24} days` : `${hours} hours`} before`
}

/** The change against the time before, which `than` names; `isShort`: to screen readers only. `isWorse`: an increase is bad. */
export function Change({
  now,
  before,
  than,
  isShort = false,
  isWorse = false,
}: {
  now: number | null
  before: number | null
  than: string
  isShort?: boolean
  isWorse?: boolean
}) {
  if (now === null || before === null || before === 0) return null
  const change = now / before - 1
  const isSame = Math.abs(change) < 0.005
  const isMultiple = change >= 10
  const amount = isMultiple ? `× ${(change + 1).toFixed(0)}` : `${Math.abs(100 * change).toFixed(0)} %`
  const comparison = isSame ? 'against' : isMultiple ? 'compared with' : change > 0 ? 'more than' : 'less than'
  const isBad = isWorse && change > 0.1
  return (
    <Text size="xs" component="div" {...(isBad && { c: 'var(--mantine-color-error)' })}>
      {isSame ? 'unchanged' : `${change > 0 ? '↑' : '↓'} ${amount}`}{' '}
      <span className={isShort ? 'visually-hidden' : undefined}>
        {comparison} {than}
      </span>
    </Text>
  )
}

/** The wallet, and the spend of today and of this month. */
export function Wallet({ overview: { wallet, today, month } }: { overview: Overview }) {
  const { home } = usePlace()
  const { available_usd, reserved_usd, held_usd, held_release_at } = wallet
  return (
    <Paper component="section" aria-label="Credits" withBorder px="md" py="sm">
      <Group gap="xl">
        <Figure label="Available" value={usd(available_usd)} />
        {reserved_usd > 0 && <Figure label="Reserved for work in progress" value={usd(reserved_usd)} />}
        {held_usd > 0 && (
          <Figure
            label={held_release_at ? `Held, next release ${moment(held_release_at)}` : 'Held'}
            value={usd(held_usd)}
          />
        )}
        <Figure label="Spend today, UTC" value={usd(today.spend_usd)} />
        <Figure label="Spend this month, UTC, by start of request" value={usd(month.spend_usd)} />
        <Anchor component={Link} href={`${home}/billing`} size="sm" ml="auto">
          Billing
        </Anchor>
      </Group>
    </Paper>
  )
}

function Figure({ label, value }: { label: string; value: string }) {
  return (
    <div>
      <Text size="xs" c="dimmed">
        {label}
      </Text>
      <Text fw={600} className="numeric">
        {value}
      </Text>
    </div>
  )
}
