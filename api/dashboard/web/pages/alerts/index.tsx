import { Stack, Title } from '@mantine/core'
import { Page } from '../../components/page.tsx'
import { Together } from '../../components/together.tsx'
import { usePlace } from '../../session.tsx'
import { Channels } from './channels.tsx'
import { History } from './history.tsx'
import { Rules } from './rules.tsx'

/** The alerts of an organisation: who gets them and when, and those that were raised. */
export default function Alerts() {
  const { may } = usePlace()
  return (
    <Page
      title="Alerts"
      description="Sent once when a live key reaches 50, 80 and 100 % of its monthly cap, when a key is blocked, when the balance is low, and when a webhook endpoint is disabled because its deliveries fail; and by your own rules."
    >
      <Together gap="xl">
        <Rules />
        {may('manage') && <Channels />}
        <Stack gap="sm" component="section" aria-labelledby="history">
          <Title order={2} id="history">
            History
          </Title>
          <History />
        </Stack>
      </Together>
    </Page>
  )
}
