import { Anchor, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { usePlace } from '../session.tsx'

/** A link to a page of the organisation, such as "jobs/job_1"; only its text where there is no such page. */
export function PageLink({ to, children }: { to: string; children: ReactNode }) {
  const { home, has } = usePlace()
  const [page] = to.split(/[/?]/)
  if (!has(page!))
    return (
      <Text span inherit>
        {children}
      </Text>
    )
  return (
    <Anchor component={Link} href={`${home}/${to}`} inherit>
      {children}
    </Anchor>
  )
}
