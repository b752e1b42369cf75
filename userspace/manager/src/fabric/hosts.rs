// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Host lists such as `xpu[01-64],head`, and patterns such as `10.23.0.{n}`.

/// Most hosts of one list.
pub const MAX_HOSTS: usize = 4096;

/// A host of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The number that stood in brackets, or ended the name.
    pub number: Option<u32>,
}

/// What is wrong with a text, and what would be right.
pub type Wrong = (String, String);

fn wrong<T>(cause: impl Into<String>, remedy: impl Into<String>) -> Result<T, Wrong> {
    Err((cause.into(), remedy.into()))
}

/// The hosts of a list, in its order.
pub fn expand(list: &str) -> Result<Vec<Host>, Wrong> {
    let mut hosts = Vec::new();
    for part in parts(list)? {
        one(part, &mut hosts)?;
        if hosts.len() > MAX_HOSTS {
            return wrong(
                format!("the list \"{list}\" has more than {MAX_HOSTS} hosts"),
                "name fewer hosts",
            );
        }
    }
    let mut names: Vec<_> = hosts.iter().map(|host| &host.name).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(hosts),
        Some(twice) => wrong(
            format!("{} is in the list \"{list}\" twice", twice[0]),
            "name each host once",
        ),
    }
}

/// The list, cut at the commas outside of brackets.
fn parts(list: &str) -> Result<Vec<&str>, Wrong> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, letter) in list.char_indices() {
        match letter {
            '[' if inside => {
                return wrong(
                    format!("\"{list}\" has a bracket inside brackets"),
                    "write one range behind the name, as in xpu[01-64]",
                )
            }
            '[' => inside = true,
            ']' if !inside => {
                return wrong(
                    format!("\"{list}\" has a \"]\" without a \"[\""),
                    "write a range as xpu[01-64]",
                )
            }
            ']' => inside = false,
            ',' if !inside => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return wrong(
            format!("\"{list}\" has a \"[\" without a \"]\""),
            "write a range as xpu[01-64]",
        );
    }
    parts.push(list[start..].trim());
    Ok(parts)
}

fn one(part: &str, hosts: &mut Vec<Host>) -> Result<(), Wrong> {
    let Some((prefix, rest)) = part.split_once('[') else {
        let name = name_of(part)?;
        let digits = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[digits.len()..].parse().ok();
        hosts.push(Host { name, number });
        return Ok(());
    };
    let (ranges, suffix) = rest.split_once(']').unwrap_or((rest, ""));
    if suffix.contains('[') {
        return wrong(
            format!("\"{part}\" has two ranges"),
            "write one range in a name, and another name behind a comma",
        );
    }
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.trim(), last.trim());
        let (Some(low), Some(high)) = (digits(first), digits(last)) else {
            return wrong(
                format!("\"{range}\" in \"{part}\" is not a range of numbers"),
                "write two numbers and a \"-\" between them, as in xpu[01-64]",
            );
        };
        if low > high {
            return wrong(
                format!("the range {range} in \"{part}\" runs backwards"),
                format!("write it as {last}-{first}"),
            );
        }
        if (high - low) as usize >= MAX_HOSTS {
            return wrong(
                format!("the range {range} in \"{part}\" has more than {MAX_HOSTS} numbers"),
                "name fewer hosts",
            );
        }
        for number in low..=high {
            let name = format!("{prefix}{number:0width$}{suffix}", width = first.len());
            hosts.push(Host {
                name: name_of(&name)?,
                number: Some(number),
            });
        }
    }
    Ok(())
}

fn digits(text: &str) -> Option<u32> {
    let all = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    text.parse().ok().filter(|_| all)
}

/// The name of a host, if it can be one.
pub(crate) fn name_of(text: &str) -> Result<String, Wrong> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if text.is_empty() || text.len() > 64 || !text.chars().all(fits) {
        return wrong(
            format!("\"{text}\" is not the name of a host"),
            "a name is 1 to 64 letters, digits, \"-\", \"_\" and \".\"",
        );
    }
    Ok(text.into())
}

/// The pattern for one host: `{n}` is its number, also `{n+100}` and `{n-1}`, `{host}` its name.
pub fn fill(pattern: &str, host: &Host) -> Result<String, Wrong> {
    let (mut text, mut rest) = (String::new(), pattern);
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((inner, behind)) = behind.split_once('}') else {
            return wrong(
                format!("\"{pattern}\" has a \"{{\" without a \"}}\""),
                "write the number of a host as {n}",
            );
        };
        text += before;
        text += &value(pattern, inner, host)?;
        rest = behind;
    }
    Ok(text + rest)
}

fn value(pattern: &str, inner: &str, host: &Host) -> Result<String, Wrong> {
    if inner == "host" {
        return Ok(host.name.clone());
    }
    let unknown = || {
        wrong(
            format!("\"{{{inner}}}\" in \"{pattern}\" means nothing"),
            "there are {n}, {n+NUMBER}, {n-NUMBER} and {host}",
        )
    };
    let Some(offset) = inner.strip_prefix('n') else {
        return unknown();
    };
    let offset = match (offset.split_at_checked(1), offset) {
        (_, "") => Some(0),
        (Some(("+", by)), _) => digits(by).map(i64::from),
        (Some(("-", by)), _) => digits(by).map(|by| -i64::from(by)),
        _ => None,
    };
    let Some(offset) = offset else {
        return unknown();
    };
    let Some(number) = host.number else {
        return wrong(
            format!(
                "\"{pattern}\" wants the number of {}, which has none",
                host.name
            ),
            "write it out for this host, or number the hosts as in xpu[01-64]",
        );
    };
    match i64::from(number) + offset {
        number @ 0.. => Ok(number.to_string()),
        number => wrong(
            format!("\"{pattern}\" is {number} for {}", host.name),
            "numbers are not negative",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<String> {
        expand(list).unwrap().into_iter().map(|h| h.name).collect()
    }

    #[test]
    fn lists_expand_in_their_order_and_keep_leading_zeros() {
        assert_eq!(names("head"), ["head"]);
        assert_eq!(names("xpu[08-10]"), ["xpu08", "xpu09", "xpu10"]);
        assert_eq!(names("b2, a[1,3-4]-x"), ["b2", "a1-x", "a3-x", "a4-x"]);
        assert_eq!(names("xpu[01-64]").len(), 64);
    }

    #[test]
    fn patterns_are_filled_with_number_and_name() {
        let host = &expand("xpu[07]").unwrap()[0];
        assert_eq!(fill("10.0.0.{n}:7779", host).unwrap(), "10.0.0.7:7779");
        assert_eq!(fill("10.0.{n+100}.{n-7}", host).unwrap(), "10.0.107.0");
        assert_eq!(fill("{host}.lab", host).unwrap(), "xpu07.lab");
        assert_eq!(fill("{n}", &expand("gpu12").unwrap()[0]).unwrap(), "12");
    }

    #[test]
    fn mistakes_are_told() {
        for (list, cause) in [
            ("", "\"\" is not the name of a host"),
            ("a,,b", "\"\" is not the name of a host"),
            ("xpu[1-2", "\"xpu[1-2\" has a \"[\" without a \"]\""),
            ("xpu1-2]", "\"xpu1-2]\" has a \"]\" without a \"[\""),
            ("x[1[2]]", "\"x[1[2]]\" has a bracket inside brackets"),
            ("x[1-2]y[1-2]", "\"x[1-2]y[1-2]\" has two ranges"),
            ("x[9-1]", "the range 9-1 in \"x[9-1]\" runs backwards"),
            ("x[a-b]", "\"a-b\" in \"x[a-b]\" is not a range of numbers"),
            ("x[-1]", "\"-1\" in \"x[-1]\" is not a range of numbers"),
            (
                "x[0-4000000000]",
                "the range 0-4000000000 in \"x[0-4000000000]\" has more than 4096 numbers",
            ),
            ("a,a", "a is in the list \"a,a\" twice"),
            ("x 1", "\"x 1\" is not the name of a host"),
        ] {
            assert_eq!(expand(list).unwrap_err().0, cause);
        }
        let host = &expand("head").unwrap()[0];
        for (pattern, cause) in [
            (
                "10.0.0.{n}",
                "\"10.0.0.{n}\" wants the number of head, which has none",
            ),
            ("{m}", "\"{m}\" in \"{m}\" means nothing"),
            ("{n*2}", "\"{n*2}\" in \"{n*2}\" means nothing"),
            ("{n", "\"{n\" has a \"{\" without a \"}\""),
        ] {
            assert_eq!(fill(pattern, host).unwrap_err().0, cause);
        }
    }
}
