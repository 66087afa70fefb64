import { Alert, Anchor } from '@mantine/core'
import { IconBan } from '@tabler/icons-react'
import { usePublicSettings } from '../session.tsx'

/** A notice that the organisation is suspended, why, and whom to ask. */
export function SuspendedNotice({ reason }: { reason: string | undefined }) {
  return (
    <Alert color="red" variant="light" icon={<IconBan aria-hidden />} title="This organisation is suspended">
      {reason !== undefined && <div>Reason: {reason}</div>}
      Its API keys do not work, and nothing can be changed. Contact <Operator />.
    </Alert>
  )
}

function Operator() {
  const contact = usePublicSettings().data?.contact
  if (!contact) return 'the operator of this service'
  return (
    <>
      the operator of this service:{' '}
      <Anchor href={URL.canParse(contact) ? contact : `mailto:${contact}`} inherit underline="always">
        {contact}
      </Anchor>
    </>
  )
}
