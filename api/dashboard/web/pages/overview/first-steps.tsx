import { Anchor, Box, Group, Paper, Stack, Text, ThemeIcon, Title } from '@mantine/core'
import { IconCheck } from '@tabler/icons-react'
import { type ReactNode, useState } from 'react'
import { Link } from 'wouter'
import type { Overview } from '../../../wire/usage.ts'
import { CodeBox } from '../../components/copy.tsx'
import { usePlace } from '../../session.tsx'
import { curlOf } from '../playground/curl.ts'
import { FirstKeyStep, useFirstKey } from './first-key-step.tsx'
import { FirstRequest } from './first-request.tsx'

/** The first steps of a new organisation, until all are done. */
export function FirstSteps({ steps }: { steps: Overview['first_steps'] }) {
  const { home, may } = usePlace()
  const firstKey = useFirstKey()
  // The link to the first request stays until the page is left, although the step is done by then.
  const [wasWaiting] = useState(!steps.request_made)
  const isSecretShown = firstKey.answer !== null
  // A request with the key shows that its secret was kept, in whatever browser that was.
  const isKept = steps.key_created && (steps.request_made || firstKey.isKept) && !isSecretShown
  if (Object.values(steps).every(Boolean) && isKept) return null
  const body = { model: 'auto', messages: [{ role: 'user', content: 'Say hello in one word.' }] }
  return (
    <Paper component="section" aria-labelledby="first-steps" withBorder p="md">
      <Title order={2} id="first-steps" mb="sm">
        Getting started
      </Title>
      <Stack component="ol" gap="md" m={0} p={0} style={{ listStyle: 'none' }}>
        <Step number={1} title="Create an organisation" done />
        <Step number={2} title="Copy your test key" done={isKept}>
          <FirstKeyStep firstKey={firstKey} keyExists={steps.key_created} />
        </Step>
        <Step number={3} title="Send a first request" done={steps.request_made && !wasWaiting}>
          {!isSecretShown && (
            <>
              Set <code>HEADGATE_API_KEY</code> to your key, then run:
              <Box my="xs">
                <CodeBox code={curlOf({ path: '/v1/chat/completions', body })} label="first request" />
              </Box>
            </>
          )}
          Run an example from your computer, or{' '}
          <Anchor component={Link} href={`${home}/playground`} inherit underline="always">
            open the playground
          </Anchor>
          .
          <Box mt="xs">
            <FirstRequest />
          </Box>
        </Step>
        <Step number={4} title="Confirm your email address" done={steps.email_verified}>
          Open the link in the email that we sent you. Live keys, credits and invitations need it.
        </Step>
        <Step number={5} title="Add credits and create a live key" done={steps.credits_added}>
          Live keys call the providers and are paid from credits.{' '}
          {may('pay') ? (
            <Anchor component={Link} href={`${home}/billing`} inherit underline="always">
              Open Billing
            </Anchor>
          ) : (
            'An owner of the organisation can add them.'
          )}
        </Step>
      </Stack>
    </Paper>
  )
}

function Step({
  number,
  title,
  done,
  children,
}: {
  number: number
  title: string
  done: boolean
  children?: ReactNode
}) {
  return (
    <Group component="li" wrap="nowrap" align="flex-start" gap="sm">
      <ThemeIcon size={24} radius="xl" variant={done ? 'filled' : 'default'} color="teal" aria-hidden>
        {done ? <IconCheck size={16} /> : number}
      </ThemeIcon>
      <div style={{ minWidth: 0, flex: 1 }}>
        <Text size="sm" fw={500} {...(done && { c: 'dimmed' })}>
          {title}
          {done && <span className="visually-hidden"> (done)</span>}
        </Text>
        {!done && (
          <Text size="sm" c="dimmed" component="div">
            {children}
          </Text>
        )}
      </div>
    </Group>
  )
}
