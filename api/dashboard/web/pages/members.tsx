import { Page } from '../components/page.tsx'

export default function Members() {
  return <Page title="Members">{null}</Page>
}
