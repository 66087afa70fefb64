import { Anchor, Paper, Stack, Text, Title } from '@mantine/core'
import { IconAlertTriangle, IconCircleCheck } from '@tabler/icons-react'
import type { ReactNode } from 'react'
import { Link } from 'wouter'
import type { Attention as Answer, Notice } from '../../../wire/usage.ts'
import { ago, count, minute, percent, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { requestsHref } from '../usage/queries.ts'

/** Problems that need attention, and outages of the time that are over; nothing if there are none. */
export function Attention({ attention: { notices, over }, environment }: { attention: Answer; environment: string }) {
  return (
    <>
      <Notices id="attention" title="Needs attention" notices={notices} environment={environment} />
      <Notices id="over" title="Recovered" notices={over} environment={environment} />
    </>
  )
}

function Notices({
  id,
  title,
  notices,
  environment,
}: {
  id: string
  title: string
  notices: Notice[]
  environment: string
}) {
  const { home } = usePlace()
  if (notices.length === 0) return null
  return (
    <Paper component="section" aria-labelledby={id} withBorder p="md">
      <Title order={2} id={id} mb="xs">
        {title}
      </Title>
      <Stack component="ul" gap={6} m={0} p={0} style={{ listStyle: 'none' }}>
        {notices.map(notice => {
          const { href, text } = sentenceOf(notice, home, environment)
          return (
            <li key={JSON.stringify(notice)} style={{ display: 'flex', gap: 8 }}>
              <NoticeIcon notice={notice} />
              <Text size="sm">
                {text}{' '}
                <Anchor component={Link} href={href} inherit>
                  Show
                  <span className="visually-hidden"> {plain(notice)}</span>
                </Anchor>
              </Text>
            </li>
          )
        })}
      </Stack>
    </Paper>
  )
}

function NoticeIcon({ notice }: { notice: Notice }) {
  const shared = { size: 16, 'aria-hidden': true, style: { flexShrink: 0, marginTop: 2 } }
  if (notice.kind !== 'failing') return <IconAlertTriangle {...shared} color="var(--mantine-color-yellow-6)" />
  if (notice.to === null) return <IconAlertTriangle {...shared} color="var(--mantine-color-red-6)" />
  return <IconCircleCheck {...shared} color="var(--mantine-color-green-6)" />
}

type Sentence = { text: ReactNode; href: string }

function sentenceOf(notice: Notice, home: string, environment: string): Sentence {
  switch (notice.kind) {
    case 'failing': {
      const { provider, from, to, failed, requests } = notice
      const what = provider === '' ? 'No provider was available' : `${provider} ${to === null ? 'fails' : 'failed'}`
      const share =
        failed === requests
          ? `all ${count(requests)} requests`
          : `${count(failed)} of ${count(requests)} requests (${percent(failed / requests)})`
      return {
        text: (
          <>
            <b>{what}</b>: {share} {to === null ? `since ${minute(from)}` : `from ${minute(from)} to ${minute(to)}`}.
          </>
        ),
        href: requestsHref(home, { environment, provider, from, to: endOf(to), status: 'failed' }),
      }
    }
    case 'rate_limited':
      return {
        text: (
          <>
            <b>{notice.key.name}</b> was rate limited in the last hour: {count(notice.refused)} of{' '}
            {count(notice.requests)} requests.
          </>
        ),
        href: requestsHref(home, { environment, key: notice.key.id, status: '429', span: '1h' }),
      }
    case 'key_cap': {
      const { key, spent_usd: spent, cap_usd: cap } = notice
      return {
        text: (
          <>
            <b>{key.name}</b> {spent >= cap ? 'has reached its monthly cap' : 'is near its monthly cap'}: {usd(spent)}{' '}
            of {usd(cap)}. {spent >= cap && 'Its requests are refused with 402 until next month.'}
          </>
        ),
        href: `${home}/keys/${key.id}`,
      }
    }
    case 'key_expiry':
      return {
        text: (
          <>
            <b>{notice.key.name}</b> expires {ago(notice.at)}.
          </>
        ),
        href: `${home}/keys/${notice.key.id}`,
      }
    case 'webhook':
      return {
        text: (
          <>
            Webhooks to <b>{notice.url}</b> fail: {count(notice.failed)} deliveries since {minute(notice.since)}.
          </>
        ),
        href: `${home}/webhooks?status=failed`,
      }
    case 'credits':
      return {
        text: (
          <>
            <b>Credits</b>{' '}
            {notice.days < 0.5
              ? 'are used up'
              : `last about ${notice.days < 1.5 ? 'one day' : `${Math.round(notice.days)} days`}`}{' '}
            at {usd(notice.per_day_usd)} a day, the average of the last week.
          </>
        ),
        href: `${home}/billing`,
      }
  }
}

/** The end of a time that includes its last request. */
function endOf(to: string | null): string | undefined {
  return to === null ? undefined : new Date(Date.parse(to) + 1).toISOString()
}

/** What a link is about, for screen readers. */
function plain(notice: Notice): string {
  if ('key' in notice) return notice.key.name
  if (notice.kind === 'failing') return `requests of ${notice.provider || 'the outage'}`
  return notice.kind === 'webhook' ? `deliveries to ${notice.url}` : 'billing'
}
