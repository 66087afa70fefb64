import { Anchor, Button, Text } from '@mantine/core'
import { useState } from 'react'
import { Link } from 'wouter'
import { Copy } from '../../components/copy.tsx'
import { Page } from '../../components/page.tsx'
import { Section } from '../../components/section.tsx'
import { Together } from '../../components/together.tsx'
import { usePlace } from '../../session.tsx'
import { useMembers } from '../members/member.ts'
import { Removal } from '../members/removal.tsx'
import { InputOutputLogging } from './logging.tsx'
import { ProviderKeys } from './provider-keys.tsx'
import { RenameForm } from './rename-form.tsx'
import { ResponseCache } from './response-cache.tsx'
import { StoredResponses } from './stored-responses.tsx'
import { TwoFactorSwitch } from './two-factor-switch.tsx'

/** The settings of an organisation: admins change them, everyone can leave. */
export default function Settings() {
  const { id, name, home, may } = usePlace()
  const isAdmin = may('manage')
  return (
    <Page title="Settings" description="What applies to the whole organisation. Admins and owners can change it.">
      <Together gap="xl">
        <Section title="General">
          {isAdmin ? <RenameForm /> : <Text size="sm">{name}</Text>}
          <Text size="sm" c="dimmed" component="div" style={{ overflowWrap: 'anywhere' }}>
            Organisation ID: {id} <Copy value={id} label="organisation ID" />
          </Text>
        </Section>
        {isAdmin && (
          <>
            <Section title="Security">
              <TwoFactorSwitch />
            </Section>
            <Section title="Stored responses">
              <StoredResponses />
            </Section>
            <Section title="Response cache">
              <ResponseCache />
            </Section>
            <ProviderKeys />
            <InputOutputLogging />
            <Section title="Alerts and webhooks">
              <Text size="sm">
                Recipients, thresholds and rules of alerts are on the{' '}
                <Anchor component={Link} href={`${home}/alerts`} inherit underline="always">
                  Alerts
                </Anchor>{' '}
                page, endpoints and the signing secret on the{' '}
                <Anchor component={Link} href={`${home}/webhooks?tab=endpoints`} inherit underline="always">
                  Webhooks
                </Anchor>{' '}
                page.
              </Text>
            </Section>
          </>
        )}
        <Section title="Leave or close the organisation">
          <Leave />
          <Text size="sm" c="dimmed" maw={640}>
            Organisations are not deleted from the dashboard, because their ledger has to be kept. To stop all use,
            revoke the API keys and remove the members; the operator of this service can do the rest.
          </Text>
        </Section>
      </Together>
    </Page>
  )
}

/** Leaves the organisation, after a confirmation. */
function Leave() {
  const { me, name } = usePlace()
  const members = useMembers()
  const [isLeaving, setLeaving] = useState(false)
  const own = members.data?.find(({ user_id }) => user_id === me.id)
  return (
    <>
      <Button color="red" variant="light" w="fit-content" disabled={!own} onClick={() => setLeaving(true)}>
        Leave {name}
      </Button>
      {isLeaving && own && <Removal member={own} onClose={() => setLeaving(false)} />}
    </>
  )
}
